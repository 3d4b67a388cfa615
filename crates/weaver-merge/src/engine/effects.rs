//! Doing what a plan asks for.

use weaver_core::error::Error;
use weaver_core::id::TaskKey;
use weaver_core::queue::QueueExt;
use weaver_core::task::NewTask;

use super::{EngineError, MergeEngine, certificate, read_config};
use crate::check::{CHECK_QUEUE, CHECK_TASK_TYPE, CheckPayload};
use crate::domain::{EntryId, MergeQueue, Oid};
use crate::forge::{Landing, MergeOutcome, MergeRequest};
use crate::plan::{Action, Report};

/// How often a check is tried again when it could not be run at all (no room for its files, say). What a check finds out
/// is never a failure of its task.
const RUN_ATTEMPTS: u32 = 3;

/// What came of an action.
pub(super) enum Performed {
    Report(Report),
    /// The world is not what was planned on.
    LookAgain,
    Nothing,
}

impl MergeEngine {
    pub(super) async fn perform(&self, queue: &MergeQueue, action: Action) -> Result<Performed, EngineError> {
        match action {
            Action::Build { entry, base, head } => self.build(queue, entry, base, head).await,
            Action::StartCheck { entry, candidate, check, on, number, base, commit } => {
                let id = &queue.id;
                let key = format!("merge:{id}:{entry}:{candidate}:{check}:{number}");
                let payload =
                    CheckPayload { queue: id.clone(), entry, check: check.clone(), base, commit, on };
                let task = NewTask::new(CHECK_TASK_TYPE).json(&payload).map_err(|error| {
                    EngineError::Unreadable { what: key.clone(), problem: error.to_string() }
                })?;
                let task = task
                    .namespace(&self.options.namespace)
                    .queue(CHECK_QUEUE)
                    .timeout(self.options.policy.check_timeout())
                    .max_attempts(RUN_ATTEMPTS)
                    .label("merge_queue", id.0.clone())
                    .label("merge_entry", entry.to_string())
                    .idempotency_key(key);
                let task = self.store.enqueue(task).await?.key.id;
                Ok(Performed::Report(Report::Started { entry, candidate, check, number, task }))
            }
            Action::StopCheck { task } => {
                match self.store.cancel(&TaskKey::new(self.options.namespace.clone(), task)).await {
                    // It has ended, or was purged: there is nothing to stop.
                    Ok(()) | Err(Error::Refused { .. } | Error::NotFound { .. }) => Ok(Performed::Nothing),
                    Err(error) => Err(error.into()),
                }
            }
            Action::Land { entry, base, commit } => self.land(queue, entry, &base, commit).await,
        }
    }

    async fn land(
        &self,
        queue: &MergeQueue,
        id: EntryId,
        base: &Oid,
        commit: Oid,
    ) -> Result<Performed, EngineError> {
        let forge = self.forges.open(&queue.repository);
        match forge.land(&queue.base_branch, base, &commit).await {
            Ok(Landing::Done) => Ok(Performed::Report(Report::Landed { entry: id, commit })),
            Ok(Landing::BaseMoved) => Ok(Performed::LookAgain),
            Err(error) => {
                // No ref leads to the candidate: somebody's `git gc` may have taken it away. Made again, it is the same.
                // Whatever comes of that, the next try shows.
                let entry = queue.entry(id)?;
                if let Some(candidate) = &entry.candidate {
                    let (base, head) = (candidate.base.clone(), candidate.head.clone());
                    let message = certificate::message(queue, entry);
                    let _ = forge.merge(&MergeRequest { base, head, message }).await;
                }
                Ok(trouble(id, &error))
            }
        }
    }

    async fn build(
        &self,
        queue: &MergeQueue,
        id: EntryId,
        base: Oid,
        head: Oid,
    ) -> Result<Performed, EngineError> {
        let forge = self.forges.open(&queue.repository);
        let message = certificate::message(queue, queue.entry(id)?);
        let request = MergeRequest { base: base.clone(), head: head.clone(), message };
        let entry = id;
        let merged = match forge.merge(&request).await {
            Ok(MergeOutcome::Merged(merged)) => merged,
            Ok(MergeOutcome::Conflict(paths)) => {
                return Ok(Performed::Report(Report::Conflict { entry, base, head, paths }));
            }
            Ok(MergeOutcome::AlreadyMerged) => {
                return Ok(Performed::Report(Report::AlreadyMerged { entry, base, head }));
            }
            Err(error) => return Ok(trouble(entry, &error)),
        };
        Ok(match read_config(&*forge, &base).await {
            Ok(Ok(config)) => {
                let checks = config.check_set().names;
                Performed::Report(Report::Built { entry, base, head, merged, checks })
            }
            Ok(Err(_)) => Performed::LookAgain,
            Err(error) => trouble(entry, &error),
        })
    }
}

fn trouble(entry: EntryId, error: &dyn std::fmt::Display) -> Performed {
    Performed::Report(Report::Trouble { entry, message: error.to_string() })
}
