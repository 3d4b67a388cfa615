//! The settings of a cluster, with the defaults of seed 004.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What assign queues do while there is no leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssignFallback {
    /// Workers pull from them.
    #[default]
    Pull,
    /// Their tasks wait for the next leader.
    Wait,
}

/// The settings of a cluster. The same on every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSettings {
    /// How often a node writes its heartbeat, and a leader looks for work: `leader_tick_seconds`, 1 s.
    pub tick: Duration,
    /// Silence of a leader after which another node takes over: `leader_stale_seconds`, 10 s.
    pub leader_stale: Duration,
    /// Time without a leader after which nodes release assigned tasks themselves, and pull from assign
    /// queues: `leaderless_seconds`, 60 s.
    pub leaderless: Duration,
    /// How long a task stays assigned to a worker that drained, was detached, left or fell silent:
    /// `reassign_after_seconds`, 60 s.
    pub reassign_after: Duration,
    /// How long a task stays assigned to any worker that does not start it: `start_within_seconds`, 300 s.
    pub start_within: Duration,
    /// The most tasks a leader keeps in one worker's hands, running ones included; a worker's own capacity is
    /// a limit too. `None`: only its capacity.
    pub max_tasks_per_worker: Option<u32>,
    /// What assign queues do without a leader: `assign_fallback`, pull.
    pub assign_fallback: AssignFallback,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            tick: Duration::from_secs(1),
            leader_stale: Duration::from_secs(10),
            leaderless: Duration::from_secs(60),
            reassign_after: Duration::from_secs(60),
            start_within: Duration::from_secs(300),
            max_tasks_per_worker: None,
            assign_fallback: AssignFallback::Pull,
        }
    }
}

/// Assignments in a row that a worker did not start, after which it gets none until it starts a task.
pub(super) const UNSTARTED_MAX: u32 = 3;
