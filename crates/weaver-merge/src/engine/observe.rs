//! Collects the observations for planning.

use std::collections::HashMap;

use weaver_core::id::{TaskId, TaskKey};
use weaver_core::task::{Cause, TaskRecord, TaskState};

use super::{EngineError, MergeEngine};
use crate::check::{CHECK_TASK_TYPE, CheckPayload, CheckResult};
use crate::config::{CONFIG_MAX_BYTES, CONFIG_PATH, MergeConfig};
use crate::domain::{
    Check, CheckTarget, EntryId, MergeQueue, Oid, OnForeign, QueueEntry, RunOutcome, Status,
};
use crate::forge::{Forge, ForgeError};
use crate::plan::{BaseSeen, CheckSet, Observations, PullRequestSeen, RunSeen};

impl MergeEngine {
    pub(super) async fn observe(&self, queue: &MergeQueue) -> Result<Observations, EngineError> {
        let forge = self.forges.open(&queue.repository);
        let ready = queue.current_entry().filter(|entry| entry.status == Status::Ready);
        if queue.removal.is_some() && ready.is_none() {
            return self.observe_tasks(queue, forge.on_foreign()).await;
        }
        let mut base = base(&*forge, &queue.base_branch).await;
        let mut base_has_candidate = false;
        if let (BaseSeen::Tip { oid, .. }, Some(merged)) = (&base, ready.and_then(|entry| entry.merged())) {
            match forge.contains(oid, &merged.commit).await {
                Ok(has) => base_has_candidate = has,
                // Unknown whether it landed: nothing may be done about it.
                Err(error) => base = BaseSeen::Unreachable(error.to_string()),
            }
        }
        let mut foreign = None;
        if let (BaseSeen::Tip { oid, .. }, Some(chain), false) = (&base, &queue.chain, base_has_candidate)
            && *oid != chain.commit
        {
            match self.foreign(&*forge, queue, &chain.commit, oid).await {
                Ok(moved) => foreign = Some(moved),
                Err(EngineError::Forge(error)) => base = BaseSeen::Unreachable(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(Observations {
            pull_requests: pull_requests(&*forge, queue).await,
            base,
            base_has_candidate,
            foreign,
            on_foreign: queue.on_foreign.unwrap_or_else(|| forge.on_foreign()),
            runs: self.runs(queue).await?,
            // Allotted with the plan: other queues are planned meanwhile.
            is_active: false,
            slots: 0,
        })
    }

    /// For a removal, which needs nothing of the repository: that may be gone.
    async fn observe_tasks(
        &self,
        queue: &MergeQueue,
        on_foreign: OnForeign,
    ) -> Result<Observations, EngineError> {
        Ok(Observations {
            base: BaseSeen::Missing(queue.base_branch.clone()),
            pull_requests: HashMap::new(),
            base_has_candidate: false,
            foreign: None,
            on_foreign,
            runs: self.runs(queue).await?,
            is_active: false,
            slots: 0,
        })
    }

    async fn runs(&self, queue: &MergeQueue) -> Result<HashMap<TaskId, RunSeen>, EngineError> {
        let mut tasks: Vec<(TaskId, Option<CheckPayload>)> = Vec::new();
        for entry in &queue.entries {
            for check in &entry.checks {
                let started = check.open_runs().filter_map(|run| Some((run.task?, run.on)));
                tasks.extend(started.map(|(task, on)| (task, expected_payload(queue, entry, check, on))));
            }
        }
        tasks.extend(queue.stopping.iter().map(|task| (*task, None)));
        let key = |(id, _): &(TaskId, _)| TaskKey::new(self.namespace_of(queue).clone(), *id);
        let keys: Vec<TaskKey> = tasks.iter().map(key).collect();
        let records = self.store.get_tasks(&keys).await?;
        let seen = |((id, expected), record): ((TaskId, Option<CheckPayload>), &Option<TaskRecord>)| {
            (id, run_seen(record.as_ref(), expected.as_ref()))
        };
        Ok(tasks.into_iter().zip(&records).map(seen).collect())
    }
}

/// The configuration of a base. The outer error is transient; the inner one is for people.
pub(crate) async fn read_config(
    forge: &dyn Forge,
    base: &Oid,
) -> Result<Result<MergeConfig, String>, ForgeError> {
    let read = match forge.read_file(base, CONFIG_PATH, CONFIG_MAX_BYTES).await {
        Err(ForgeError::Unusable(problem)) => return Ok(Err(problem)),
        read => read?,
    };
    Ok(match read {
        Some(text) => MergeConfig::parse(&text),
        None => Err(format!(
            "{CONFIG_PATH} does not exist: add it with a `[[check]]` and push it to the base branch"
        )),
    })
}

async fn check_set(forge: &dyn Forge, base: &Oid, config: &MergeConfig) -> Result<CheckSet, ForgeError> {
    if config.protected.is_empty() {
        return Ok(config.check_set(""));
    }
    Ok(config.check_set(&forge.contents_id(base, &config.protected).await?))
}

async fn base(forge: &dyn Forge, base_branch: &str) -> BaseSeen {
    let seen = async {
        let Some(oid) = forge.tip(base_branch).await? else {
            return Ok(BaseSeen::Missing(format!("branch `{base_branch}`")));
        };
        let config = read_config(forge, &oid).await?;
        let checks = match config {
            Ok(config) => Ok(check_set(forge, &oid, &config).await?),
            Err(problem) => Err(problem),
        };
        Ok(BaseSeen::Tip { oid, checks })
    };
    match seen.await {
        Ok(seen) => seen,
        Err(ForgeError::NotFound(what)) => BaseSeen::Missing(what),
        Err(ForgeError::Unusable(why) | ForgeError::Unavailable(why)) => BaseSeen::Unreachable(why),
    }
}

/// Empty if the forge cannot be queried: the entries stay as they are.
async fn pull_requests(forge: &dyn Forge, queue: &MergeQueue) -> HashMap<EntryId, PullRequestSeen> {
    if queue.entries.is_empty() {
        return HashMap::new();
    }
    let ids: Vec<String> = queue.entries.iter().map(|entry| entry.pull_request.id.clone()).collect();
    let seen = forge.changes(&ids, &queue.base_branch).await.unwrap_or_default();
    queue.entries.iter().map(|entry| entry.id).zip(seen).collect()
}

/// The payload that the task of a run must have.
fn expected_payload(
    queue: &MergeQueue,
    entry: &QueueEntry,
    check: &Check,
    on: CheckTarget,
) -> Option<CheckPayload> {
    let (candidate, merged) = entry.candidate.as_ref().zip(entry.merged())?;
    Some(CheckPayload {
        queue: queue.id.clone(),
        entry: entry.id,
        check: check.name.clone(),
        base: candidate.base.clone(),
        commit: if on == CheckTarget::Base { candidate.base.clone() } else { merged.commit.clone() },
        on,
    })
}

fn run_seen(record: Option<&TaskRecord>, expected: Option<&CheckPayload>) -> RunSeen {
    let lost = |reason: &str| RunSeen::Ended(RunOutcome::Lost { reason: reason.to_owned() });
    let Some(record) = record else { return lost("its task no longer exists") };
    // A client that may enqueue tasks can guess a run's idempotency key and enqueue a task of its own under
    // it.
    let envelope = &record.spec.envelope;
    let is_expected = |expected: &CheckPayload| {
        envelope.task_type.as_str() == CHECK_TASK_TYPE
            && envelope.decode::<CheckPayload>().is_ok_and(|payload| payload == *expected)
    };
    if !expected.is_none_or(is_expected) {
        return lost("its task is not the one the merge queue requested");
    }
    match record.state {
        TaskState::Succeeded => {
            let result = record.result.as_deref().unwrap_or_default();
            match serde_json::from_slice::<CheckResult>(result) {
                Ok(result) => RunSeen::Ended(result.outcome),
                Err(error) => lost(&format!("cannot decode its result: {error}")),
            }
        }
        TaskState::Dead if record.cause == Some(Cause::TimedOut) => RunSeen::Ended(RunOutcome::TimedOut),
        TaskState::Dead => lost(record.last_error.as_deref().unwrap_or("its worker was lost")),
        TaskState::Cancelled if record.has_hold() => RunSeen::Stopping,
        TaskState::Cancelled => lost("its task was cancelled"),
        _ => {
            // A lease renewal is progress too.
            let renewed_at = record.lease.as_ref().map(|held| held.expires_at.saturating_sub(held.ttl));
            RunSeen::Active { last_seen_at: record.updated_at.max(renewed_at.unwrap_or_default()) }
        }
    }
}
