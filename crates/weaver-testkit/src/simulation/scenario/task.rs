//! Tasks, and what their handlers do.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::NewTask;
use weaver_core::time::Timestamp;

use crate::simulation::rng::Rng;
use crate::simulation::scenario::{NAMESPACES, QUEUES};

/// The type of every task.
pub(in crate::simulation) const TASK_TYPE: &str = "sim";

/// What a handler does; travels as the task's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    /// How long it takes.
    pub takes_ms: u64,
    /// How often it ends badly before it ends well.
    pub times: u32,
    /// What "badly" means.
    pub trouble: Trouble,
    /// Whether it goes on when it is told to stop.
    pub stubborn: bool,
}

/// What may go wrong in a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// It returns an error.
    Fail,
    /// It returns an error that no retry mends.
    FailForGood,
    /// It panics.
    Panic,
    /// It asks to be called later.
    Snooze,
    /// It ends the task.
    Cancel,
    /// It takes its worker down.
    Kill,
}

/// A task to be enqueued.
#[derive(Debug, Clone)]
pub struct TaskPlan {
    /// Its number in the world.
    pub number: usize,
    /// When it is enqueued.
    pub at: Duration,
    /// Where.
    pub namespace: &'static str,
    /// In which queue.
    pub queue: &'static str,
    /// How urgent.
    pub priority: u8,
    /// Due after so long.
    pub delay: Option<Duration>,
    /// Its serial key.
    pub serial: Option<u32>,
    /// Its idempotency key.
    pub unique: Option<u32>,
    /// Cancelled unless started within this.
    pub expires_after: Option<Duration>,
    /// Its budget of failures.
    pub max_attempts: u32,
    /// Its budget of losses.
    pub max_losses: u32,
    /// How long it waits after a failure.
    pub retry_after: Duration,
    /// How long one execution may take.
    pub timeout: Option<Duration>,
    /// What its handler does.
    pub behaviour: Behaviour,
}

impl TaskPlan {
    pub(super) fn draw(number: usize, at: Duration, traits: &Traits, rng: &mut Rng) -> Self {
        Self {
            number,
            at,
            namespace: rng.pick(&NAMESPACES),
            queue: rng.pick(&QUEUES),
            priority: rng.pick(&[5, 5, 5, 0, 9]),
            delay: rng.maybe(25, |rng| rng.span_ms(1..=20_000)),
            serial: rng.maybe(traits.serial_percent, |rng| rng.count(0..=2)),
            unique: rng.maybe(20, |rng| rng.count(0..=9)),
            expires_after: rng.maybe(15, |rng| rng.span_ms(100..=20_000)),
            max_attempts: rng.count(1..=4),
            max_losses: rng.pick(&[3, 3, 1, 0]),
            retry_after: rng.span_ms(0..=6_000),
            timeout: rng.maybe(10, |rng| rng.span_ms(500..=8_000)),
            behaviour: Behaviour::draw(traits, rng),
        }
    }

    /// The task, if it is `now`.
    pub fn task(&self, now: Timestamp) -> NewTask {
        let retry = RetryPolicy::Fixed { delay: self.retry_after };
        let mut task = NewTask::new(TASK_TYPE)
            .json(&self.behaviour)
            .expect("a behaviour is plain data")
            .namespace(self.namespace)
            .queue(self.queue)
            .priority(self.priority)
            .max_attempts(self.max_attempts)
            .max_losses(self.max_losses)
            .retry(retry);
        if let Some(delay) = self.delay {
            task = task.delay(delay);
        }
        if let Some(number) = self.serial {
            task = task.serial_key(format!("serial-{number}"));
        }
        if let Some(number) = self.unique {
            task = task.idempotency_key(format!("unique-{number}"));
        }
        if let Some(span) = self.expires_after {
            task = task.expires_at(now.saturating_add(span));
        }
        if let Some(span) = self.timeout {
            task = task.timeout(span);
        }
        task
    }
}

/// What the tasks of a world are like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    pub(super) serial_percent: u64,
    pub(super) long_percent: u64,
    pub(super) trouble_percent: u64,
    pub(super) kills: bool,
}

impl Behaviour {
    fn draw(traits: &Traits, rng: &mut Rng) -> Self {
        let takes_ms =
            if rng.chance(traits.long_percent) { rng.within(1_000..=20_000) } else { rng.within(0..=300) };
        let times = if rng.chance(traits.trouble_percent) { rng.count(1..=6) } else { 0 };
        let troubles = [
            Trouble::Fail,
            Trouble::Fail,
            Trouble::Panic,
            Trouble::Snooze,
            Trouble::Snooze,
            Trouble::FailForGood,
            Trouble::Cancel,
            if traits.kills { Trouble::Kill } else { Trouble::Fail },
        ];
        Self { takes_ms, times, trouble: rng.pick(&troubles), stubborn: rng.chance(30) }
    }
}
