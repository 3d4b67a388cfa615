//! The handler of every task: does what the payload says, and writes down when it began and how it ended.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_runtime::{Ctx, StopReason, TaskHandler};

use crate::simulation::clock::SimClock;
use crate::simulation::history::{Recorder, Run, RunEnd, What};
use crate::simulation::life::Switch;
use crate::simulation::scenario::{Behaviour, TASK_TYPE, Trouble};

/// The handler of one life of one worker.
pub(super) struct SimHandler {
    pub(super) task_type: TaskType,
    pub(super) clock: SimClock,
    pub(super) recorder: Recorder,
    pub(super) worker: String,
    pub(super) life: u32,
    pub(super) switch: Switch,
}

impl SimHandler {
    /// The type it handles.
    pub(super) fn task_type() -> TaskType {
        TaskType::new(TASK_TYPE).expect("a valid name")
    }

    async fn behave(&self, behaviour: Behaviour, ctx: &Ctx, run: &Run) -> (Outcome, RunEnd) {
        let work = self.clock.pause(Duration::from_millis(behaviour.takes_ms));
        let mut work = std::pin::pin!(work);
        let told = || {
            let reason = ctx.stop_reason().unwrap_or(StopReason::Shutdown);
            self.recorder.write(What::Told(run.clone(), reason));
        };
        tokio::select! {
            biased;
            // In time for its own end, it is told all the same.
            () = &mut work => if ctx.is_cancelled() { told() },
            () = ctx.cancelled() => {
                told();
                if !behaviour.stubborn {
                    return (Outcome::failed("told to stop"), RunEnd::Obeyed);
                }
                work.await;
            }
        }
        let again = match behaviour.trouble {
            // These charge nothing: only the number of attempts shows how often it happened.
            Trouble::Snooze | Trouble::Kill => ctx.attempt() <= behaviour.times,
            _ => ctx.record().failures < behaviour.times,
        };
        if again { self.trouble(behaviour.trouble).await } else { (Outcome::DONE, RunEnd::Done) }
    }

    async fn trouble(&self, trouble: Trouble) -> (Outcome, RunEnd) {
        match trouble {
            Trouble::Fail => (Outcome::failed("as planned"), RunEnd::Failed),
            Trouble::FailForGood => (Outcome::fatal("as planned"), RunEnd::Failed),
            // Without the hook: a panic that was planned need not be printed.
            Trouble::Panic => std::panic::resume_unwind(Box::new("as planned")),
            Trouble::Snooze => (Outcome::Snoozed { delay: Duration::from_millis(1_500) }, RunEnd::Snoozed),
            Trouble::Cancel => (Outcome::Cancelled { message: "as planned".into() }, RunEnd::Cancelled),
            Trouble::Kill => {
                if self.switch.pull() {
                    std::future::pending::<()>().await;
                }
                (Outcome::DONE, RunEnd::Done)
            }
        }
    }
}

#[async_trait]
impl TaskHandler for SimHandler {
    fn task_type(&self) -> &TaskType {
        &self.task_type
    }

    async fn execute(&self, payload: Bytes, ctx: Ctx) -> Outcome {
        let behaviour = serde_json::from_slice(&payload).expect("the payload is a behaviour");
        let (worker, life) = (self.worker.clone(), self.life);
        let run = Run { key: ctx.key().clone(), attempt: ctx.attempt(), fence: ctx.fence(), worker, life };
        self.recorder.write(What::Began(run.clone()));
        let mut witness = Witness { recorder: &self.recorder, run: &run, end: None };
        let (outcome, end) = self.behave(behaviour, &ctx, &run).await;
        witness.end = Some(end);
        outcome
    }
}

/// Writes the end down, however it comes.
struct Witness<'a> {
    recorder: &'a Recorder,
    run: &'a Run,
    end: Option<RunEnd>,
}

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        let unforeseen = if std::thread::panicking() { RunEnd::Failed } else { RunEnd::Dropped };
        self.recorder.write(What::Ended(self.run.clone(), self.end.unwrap_or(unforeseen)));
    }
}
