//! The plan of a world, drawn from its seed before it starts.
//!
//! Each seed switches whole kinds of faults on and off, so that some worlds are quiet enough to show what
//! noise would hide.

mod draw;
mod task;

use std::time::Duration;

pub(in crate::simulation) use task::TASK_TYPE;
pub use task::{Behaviour, Misbehaviour, TaskPlan};

use crate::faults::Rates;

/// The namespaces of every world.
pub const NAMESPACES: [&str; 2] = ["one", "two"];
/// The queues of every namespace.
pub const QUEUES: [&str; 2] = ["left", "right"];

/// The plan of one world.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Seed it was drawn from.
    pub seed: u64,
    /// Duration of every lease.
    pub lease_ttl: Duration,
    /// Grace period of handlers during shutdown.
    pub grace: Duration,
    /// Percentage of the workers' calls that are replayed much later.
    pub zombie_percent: u64,
    /// Time of the last fault. After it every task must finish.
    pub faults_end: Duration,
    /// At least one; the first runs until the end.
    pub workers: Vec<WorkerPlan>,
    /// Producers with their tasks, in order of time.
    pub producers: Vec<ProducerPlan>,
    /// Actions of the operator, in order of time.
    pub actions: Vec<(Duration, Action)>,
}

/// The plan of one worker.
#[derive(Debug, Clone)]
pub struct WorkerPlan {
    /// Same name in every life.
    pub name: String,
    /// Namespaces that it serves.
    pub namespaces: Vec<&'static str>,
    /// Handlers that run at once.
    pub concurrency: u32,
    /// Offset of its wall clock, in microseconds.
    pub skew_us: i64,
    /// Drift of its clock, in parts per million.
    pub drift_ppm: i32,
    /// Fault rates of its store calls.
    pub rates: Rates,
    /// Periods during which its store calls hang.
    pub stalls: Vec<(Duration, Duration)>,
    /// Its processes, one after the other; it does not restart after the last.
    pub lives: Vec<LifePlan>,
}

impl WorkerPlan {
    /// Whether it has no faults at all.
    pub fn is_fault_free(&self) -> bool {
        let rates = &self.rates;
        let failing = rates.fail_before + rates.fail_after + rates.duplicate + rates.stale_read + rates.delay;
        failing == 0 && self.stalls.is_empty() && self.lives.len() == 1
    }
}

/// One process of a worker.
#[derive(Debug, Clone, Copy)]
pub struct LifePlan {
    /// Downtime before it starts.
    pub after: Duration,
    /// Crash, shutdown, or never.
    pub end: LifeEnd,
}

/// How a process of a worker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifeEnd {
    /// It runs until the world ends.
    Never,
    /// It crashes after this time.
    CrashAfter(Duration),
    /// It crashes at its store call of this method and number: before it arrives, or after it was executed.
    CrashAtCall {
        /// Name of the port's method.
        method: &'static str,
        /// Ordinal of the call, from 1.
        number: u64,
        /// Whether the call is executed before the crash.
        carried_out: bool,
    },
    /// Shutdown is requested after this time, and again after the second one.
    ShutdownAfter(Duration, Option<Duration>),
}

/// The plan of a producer.
#[derive(Debug, Clone)]
pub struct ProducerPlan {
    /// Fault rates of its store calls.
    pub rates: Rates,
    /// Tasks to enqueue, in order of time.
    pub tasks: Vec<TaskPlan>,
}

/// An action of the operator.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Cancels the task enqueued with this number.
    Cancel(usize),
    /// Makes the task enqueued with this number due.
    RunNow(usize),
    /// Changes the settings of a queue.
    Set {
        /// Namespace of the queue.
        namespace: &'static str,
        /// Name of the queue.
        queue: &'static str,
        /// Whether it is paused.
        paused: bool,
        /// Concurrency limit; none for unlimited.
        max_running: Option<u32>,
    },
}
