//! What happens in a world, drawn from its seed before it begins. Each seed switches kinds of trouble on and
//! off as a whole, so that some worlds are quiet enough to show what noise would hide.

mod draw;
mod task;

use std::time::Duration;

pub(in crate::simulation) use task::TASK_TYPE;
pub use task::{Behaviour, TaskPlan, Trouble};

use crate::faults::Rates;

/// The namespaces of every world.
pub const NAMESPACES: [&str; 2] = ["one", "two"];
/// The queues of every namespace.
pub const QUEUES: [&str; 2] = ["left", "right"];

/// A world to be.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it was drawn from.
    pub seed: u64,
    /// How long every lease lasts.
    pub lease_ttl: Duration,
    /// How long a worker lets handlers go on when it is asked to stop.
    pub grace: Duration,
    /// How many of the workers' calls arrive again, much later.
    pub zombie_percent: u64,
    /// When the last fault happens. From then on everything must come to an end.
    pub faults_end: Duration,
    /// Who works.
    pub workers: Vec<WorkerPlan>,
    /// Who enqueues what, in order of time.
    pub producers: Vec<ProducerPlan>,
    /// What the operator does, in order of time.
    pub actions: Vec<(Duration, Action)>,
}

/// A worker, through all its lives.
#[derive(Debug, Clone)]
pub struct WorkerPlan {
    /// Its name, the same in every life.
    pub name: String,
    /// What it serves.
    pub namespaces: Vec<&'static str>,
    /// How many handlers it runs at once.
    pub concurrency: u32,
    /// How far its wall clock is off.
    pub skew_us: i64,
    /// How much its clock gains or loses.
    pub drift_ppm: i32,
    /// How often its store calls fail.
    pub rates: Rates,
    /// When its store calls hang, from and until.
    pub stalls: Vec<(Duration, Duration)>,
    /// How its lives go; after the last it stays away, unless that one never ends.
    pub lives: Vec<LifePlan>,
}

impl WorkerPlan {
    /// Whether nothing ever goes wrong with it.
    pub fn is_untroubled(&self) -> bool {
        let rates = &self.rates;
        let failing = rates.fail_before + rates.fail_after + rates.duplicate + rates.stale_read + rates.delay;
        failing == 0 && self.stalls.is_empty() && self.lives.len() == 1
    }
}

/// One life of a worker.
#[derive(Debug, Clone, Copy)]
pub struct LifePlan {
    /// How long it is away before.
    pub after: Duration,
    /// How it ends.
    pub end: LifeEnd,
}

/// How a worker's life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifeEnd {
    /// It does not, until the world does.
    Never,
    /// It vanishes after so long.
    CrashAfter(Duration),
    /// It vanishes around its store call of this number and method: before it arrives, or after it was
    /// carried out.
    CrashAtCall {
        /// The method.
        method: &'static str,
        /// The number.
        number: u64,
        /// Whether the call was carried out.
        carried_out: bool,
    },
    /// It is asked to stop after so long, and again after the second span.
    ShutdownAfter(Duration, Option<Duration>),
}

/// Somebody who enqueues.
#[derive(Debug, Clone)]
pub struct ProducerPlan {
    /// How often its store calls fail.
    pub rates: Rates,
    /// What it enqueues, in order of time.
    pub tasks: Vec<TaskPlan>,
}

/// Something the operator does.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Cancels the task enqueued with this number.
    Cancel(usize),
    /// Makes the task enqueued with this number due.
    RunNow(usize),
    /// Sets up a queue.
    Set {
        /// In which namespace.
        namespace: &'static str,
        /// Which one.
        queue: &'static str,
        /// Whether it is paused.
        paused: bool,
        /// Its limit.
        max_running: Option<u32>,
    },
}
