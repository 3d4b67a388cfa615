//! Tasks and the behaviour of their handlers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::NewTask;
use weaver_core::time::Timestamp;

use crate::simulation::rng::Rng;
use crate::simulation::scenario::{NAMESPACES, QUEUES};

/// The type of every task.
pub(in crate::simulation) const TASK_TYPE: &str = "sim";

/// Behaviour of a handler: the payload of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    /// Duration of an attempt, in milliseconds.
    pub takes_ms: u64,
    /// Attempts that misbehave before one succeeds.
    pub times: u32,
    /// How those attempts misbehave.
    pub misbehaviour: Misbehaviour,
    /// Whether it ignores a request to stop.
    pub stubborn: bool,
}

/// How a handler may misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Misbehaviour {
    /// It returns an error.
    Fail,
    /// It returns a fatal error.
    FailForGood,
    /// It panics, which counts as a failure.
    Panic,
    /// It snoozes the task.
    Snooze,
    /// It cancels its own task.
    Cancel,
    /// It crashes its worker.
    Kill,
}

/// The plan of one task.
#[derive(Debug, Clone)]
pub struct TaskPlan {
    /// Unique number in the world.
    pub number: usize,
    /// Age of the world when it is enqueued.
    pub at: Duration,
    /// Namespace of the task.
    pub namespace: &'static str,
    /// Queue of the task.
    pub queue: &'static str,
    /// Priority, 0 to 9.
    pub priority: u8,
    /// Delay before it is due.
    pub delay: Option<Duration>,
    /// Number of its serial key, if any.
    pub serial: Option<u32>,
    /// Number of its idempotency key, if any.
    pub unique: Option<u32>,
    /// Cancelled unless started within this.
    pub expires_after: Option<Duration>,
    /// Budget of failed attempts.
    pub max_attempts: u32,
    /// Budget of lost attempts.
    pub max_losses: u32,
    /// Retry delay after a failure.
    pub retry_after: Duration,
    /// Timeout of one attempt.
    pub timeout: Option<Duration>,
    /// Behaviour of its handler.
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

    /// Builds the task relative to `now`.
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

/// Common traits of the tasks of a world.
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
        let kinds = [
            Misbehaviour::Fail,
            Misbehaviour::Fail,
            Misbehaviour::Panic,
            Misbehaviour::Snooze,
            Misbehaviour::Snooze,
            Misbehaviour::FailForGood,
            Misbehaviour::Cancel,
            if traits.kills { Misbehaviour::Kill } else { Misbehaviour::Fail },
        ];
        Self { takes_ms, times, misbehaviour: rng.pick(&kinds), stubborn: rng.chance(30) }
    }
}
