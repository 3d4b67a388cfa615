//! The handler of every task: behaves as the payload says, and records its start and outcome.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_runtime::{Ctx, StopReason, TaskHandler};

use crate::simulation::clock::SimClock;
use crate::simulation::history::{Recorder, Run, RunOutcome, What};
use crate::simulation::scenario::{Behaviour, Misbehaviour, TASK_TYPE};
use crate::simulation::worker_life::KillSwitch;

/// The handler of one life of one worker.
pub(super) struct SimHandler {
    pub(super) task_type: TaskType,
    pub(super) clock: SimClock,
    pub(super) recorder: Recorder,
    pub(super) worker: String,
    pub(super) life: u32,
    pub(super) switch: KillSwitch,
}

impl SimHandler {
    pub(super) fn task_type() -> TaskType {
        TaskType::new(TASK_TYPE).expect("a valid name")
    }

    async fn behave(&self, behaviour: Behaviour, ctx: &Ctx, run: &Run) -> (Outcome, RunOutcome) {
        let work = self.clock.pause(Duration::from_millis(behaviour.takes_ms));
        let mut work = std::pin::pin!(work);
        let stop_requested = || {
            let reason = ctx.stop_reason().unwrap_or(StopReason::Shutdown);
            self.recorder.write(What::StopRequested(run.clone(), reason));
        };
        tokio::select! {
            biased;
            // Cancelled at the moment it finishes: recorded all the same.
            () = &mut work => if ctx.is_cancelled() { stop_requested() },
            () = ctx.cancelled() => {
                stop_requested();
                if !behaviour.stubborn {
                    return (Outcome::failed("stopped on request"), RunOutcome::Stopped);
                }
                work.await;
            }
        }
        let again = match behaviour.misbehaviour {
            // These charge nothing: only the number of attempts shows how often it happened.
            Misbehaviour::Snooze | Misbehaviour::Kill => ctx.attempt() <= behaviour.times,
            _ => ctx.record().failures < behaviour.times,
        };
        if again {
            self.misbehaviour(behaviour.misbehaviour).await
        } else {
            (Outcome::DONE, RunOutcome::Done)
        }
    }

    async fn misbehaviour(&self, misbehaviour: Misbehaviour) -> (Outcome, RunOutcome) {
        match misbehaviour {
            Misbehaviour::Fail => (Outcome::failed("as planned"), RunOutcome::Failed),
            Misbehaviour::FailForGood => (Outcome::fatal("as planned"), RunOutcome::Failed),
            // Without the panic hook: a planned panic need not be printed.
            Misbehaviour::Panic => std::panic::resume_unwind(Box::new("as planned")),
            Misbehaviour::Snooze => {
                (Outcome::Snoozed { delay: Duration::from_millis(1_500) }, RunOutcome::Snoozed)
            }
            Misbehaviour::Cancel => {
                (Outcome::Cancelled { message: "as planned".into() }, RunOutcome::Cancelled)
            }
            Misbehaviour::Kill => {
                if self.switch.pull() {
                    std::future::pending::<()>().await;
                }
                (Outcome::DONE, RunOutcome::Done)
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
        let mut end_recorder = EndRecorder { recorder: &self.recorder, run: &run, end: None };
        let (outcome, end) = self.behave(behaviour, &ctx, &run).await;
        end_recorder.end = Some(end);
        outcome
    }
}

/// Records the outcome, also of a panicked or dropped handler.
struct EndRecorder<'a> {
    recorder: &'a Recorder,
    run: &'a Run,
    end: Option<RunOutcome>,
}

impl Drop for EndRecorder<'_> {
    fn drop(&mut self) {
        let unforeseen = if std::thread::panicking() { RunOutcome::Failed } else { RunOutcome::Dropped };
        self.recorder.write(What::Ended(self.run.clone(), self.end.unwrap_or(unforeseen)));
    }
}
