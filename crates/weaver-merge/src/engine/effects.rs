//! Performs the actions of a plan.

use weaver_core::error::Error;
use weaver_core::id::TaskKey;
use weaver_core::queue::QueueExt;
use weaver_core::task::NewTask;

use super::{EngineError, MergeEngine, certificate, read_config};
use crate::check::{CHECK_QUEUE, CHECK_TASK_TYPE, CheckPayload, MERGE_RETRY};
use crate::domain::{EntryId, MergeQueue, Oid};
use crate::forge::{Forge, ForgeError, Landing, MergeOutcome, MergeRequest};
use crate::plan::{Action, Report};

/// Attempts of a check task that could not run at all (a full disk, for instance). A failed check is not a
/// failure of its task.
const RUN_ATTEMPTS: u32 = 3;

/// Result of an action.
pub(super) enum ActionResult {
    Report(Report),
    /// The observations are out of date: plan again.
    Replan,
    Nothing,
}

impl MergeEngine {
    pub(super) async fn perform(
        &self,
        queue: &MergeQueue,
        action: Action,
    ) -> Result<ActionResult, EngineError> {
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
                    .namespace(self.namespace_of(queue))
                    .queue(CHECK_QUEUE)
                    .timeout(self.options.policy.check_timeout())
                    .max_attempts(RUN_ATTEMPTS)
                    .retry(MERGE_RETRY)
                    .label("merge_queue", id.0.clone())
                    .label("merge_entry", entry.to_string())
                    .idempotency_key(key);
                let task = self.store.enqueue(task).await?.key.id;
                Ok(ActionResult::Report(Report::Started { entry, candidate, check, number, task }))
            }
            Action::StopCheck { task } => {
                match self.store.cancel(&TaskKey::new(self.namespace_of(queue).clone(), task)).await {
                    // A removal is complete once no task is left to cancel: look again.
                    Ok(()) if queue.removal.is_some() => Ok(ActionResult::Replan),
                    // It has ended or was purged: nothing to cancel.
                    Ok(()) | Err(Error::Refused { .. } | Error::NotFound { .. }) => Ok(ActionResult::Nothing),
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
    ) -> Result<ActionResult, EngineError> {
        let forge = self.forges.open(&queue.repository);
        if let Some(performed) = self.preflight(&*forge, queue, id, base, &commit).await? {
            return Ok(performed);
        }
        let report = match forge.land(&queue.base_branch, base, &commit).await {
            Ok(Landing::Done) => Report::Landed { entry: id, commit },
            Ok(Landing::BaseMoved) => return Ok(ActionResult::Replan),
            Ok(Landing::Declined(text)) => Report::Declined { entry: id, commit, text },
            Ok(Landing::Refused(problem)) => Report::Refused { entry: id, commit, problem },
            Err(error) => return Ok(fault(id, &error)),
        };
        Ok(ActionResult::Report(report))
    }

    /// Checks before landing: the landing can be signed, the base is where the chain ends, and rebuilding the
    /// candidate gives the tested commit. Candidates are private to the process that built them: this builds
    /// one of another process.
    async fn preflight(
        &self,
        forge: &dyn Forge,
        queue: &MergeQueue,
        id: EntryId,
        base: &Oid,
        commit: &Oid,
    ) -> Result<Option<ActionResult>, EngineError> {
        let refused = |problem: String| {
            Ok(Some(ActionResult::Report(Report::Refused { entry: id, commit: commit.clone(), problem })))
        };
        if let Err(problem) = self.options.keyring.sign(b"") {
            return refused(format!("{problem}; nothing lands without a signature"));
        }
        if let Some(chain) = queue.chain.as_ref().filter(|chain| chain.commit != *base) {
            return refused(format!(
                "the candidate is based on {base}, but the chain ends at {}",
                chain.commit
            ));
        }
        let entry = queue.entry(id)?;
        let (Some(candidate), Some(merged)) = (&entry.candidate, entry.merged()) else { return Ok(None) };
        let (head, message) = (candidate.head.clone(), certificate::message_of(queue, entry));
        match forge.merge(&MergeRequest { base: base.clone(), head, message }).await {
            Ok(MergeOutcome::Merged(again)) if again == *merged => Ok(None),
            Ok(MergeOutcome::Merged(again)) => {
                let problem = format!("its parents give {} with tree {}", again.commit, again.tree);
                refused(format!("{commit} with tree {} is not what was tested: {problem}", merged.tree))
            }
            Ok(other) => refused(format!("{commit} cannot be rebuilt from its parents: {other:?}")),
            Err(error) => Ok(Some(fault(id, &error))),
        }
    }

    async fn build(
        &self,
        queue: &MergeQueue,
        id: EntryId,
        base: Oid,
        head: Oid,
    ) -> Result<ActionResult, EngineError> {
        let forge = self.forges.open(&queue.repository);
        let message = certificate::message_of(queue, queue.entry(id)?);
        let request = MergeRequest { base: base.clone(), head: head.clone(), message };
        let entry = id;
        let merged = match forge.merge(&request).await {
            Ok(MergeOutcome::Merged(merged)) => merged,
            Ok(MergeOutcome::Conflict(paths)) => {
                return Ok(match self.collisions(&*forge, queue, &base, &head, &paths).await {
                    Ok(with) => ActionResult::Report(Report::Conflict { entry, base, head, paths, with }),
                    Err(error) => fault(entry, &error),
                });
            }
            Ok(MergeOutcome::AlreadyMerged) => {
                return Ok(match self.was_merged_outside(&*forge, queue, &base, &head).await {
                    Ok(is_outside) => {
                        ActionResult::Report(Report::AlreadyMerged { entry, base, head, is_outside })
                    }
                    Err(error) => fault(entry, &error),
                });
            }
            Err(ForgeError::Unusable(problem)) => {
                return Ok(ActionResult::Report(Report::Unusable { entry, base, head, problem }));
            }
            Err(error) => return Ok(fault(entry, &error)),
        };
        Ok(match read_config(&*forge, &base).await {
            // What lands is the next base: its configuration must be usable too.
            Ok(Ok(config)) => match read_config(&*forge, &merged.commit).await {
                Ok(Ok(_)) => {
                    let checks = config.checks.into_iter().map(|check| check.name).collect();
                    ActionResult::Report(Report::Built { entry, base, head, merged, checks })
                }
                Ok(Err(problem)) => {
                    ActionResult::Report(Report::InvalidConfig { entry, base, head, problem })
                }
                Err(error) => fault(entry, &error),
            },
            Ok(Err(_)) => ActionResult::Replan,
            Err(error) => fault(entry, &error),
        })
    }
}

fn fault(entry: EntryId, error: &dyn std::fmt::Display) -> ActionResult {
    ActionResult::Report(Report::Fault { entry, message: error.to_string() })
}
