//! Merge queues: their entries, candidates, checks and certificates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;
use weaver_merge::domain::OnForeign;

use super::{MergeChain, MergeReason, MergeRemoval};

/// Creates the merge queue of a base branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewMergeQueue {
    /// The repository on the server's machine: an absolute path.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 4096, pattern = "^/[^\\x00-\\x1f\\x7f-\\x9f]*$")
    )]
    pub location: String,
    /// The branch that changes land on; default `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub base_branch: Option<String>,
    /// The repository's name in the queue's id; default: the name of its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub name: Option<String>,
    /// The access namespace: only tokens for it see the queue and its tasks; default: the server's
    /// `merge.namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: Option<String>,
    /// What to do after a push to the base branch that did not come through the queue; if absent, the default
    /// of the repository's kind: on plain git, `pause`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_foreign: Option<OnForeign>,
}

/// Every merge queue that the token may see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeQueues {
    /// Sorted by their id.
    pub items: Vec<MergeQueue>,
}

/// The merge queue of a base branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeQueue {
    /// `repository:branch`, in paths and on the command line.
    pub id: String,
    /// Permissions are checked there, and the tasks of its checks are there.
    pub namespace: String,
    /// The part of the id before the colon.
    pub repository: String,
    /// The repository's path on the server's machine.
    pub location: String,
    /// The branch that changes land on.
    pub base_branch: String,
    /// From 0, the most urgent, to 9: whose checks run first.
    pub priority: u8,
    /// Entries in the queue.
    pub waiting: u64,
    /// Why no new candidate is built; absent: not paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<MergePause>,
    /// When the queue was created.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// What it does after a push to the base branch that did not come through the queue.
    pub on_foreign: OnForeign,
    /// The head of its chain of landings; absent before the queue was first processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<MergeChain>,
    /// Set while the queue is being removed, and after. Lists leave out those whose removal is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<MergeRemoval>,
    /// Totals since the queue was first created.
    pub stats: MergeStats,
}

/// Why a queue is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergePause {
    /// For people; what the operator gave, or what was found.
    pub reason: String,
    /// `foreign` (a push moved the base), `moved_back` (the base no longer contains what landed), `refused`
    /// (the repository refuses landings), `declined` (a hook declined several changes with the same message)
    /// or `other`.
    pub cause: String,
    /// When it was paused.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
}

/// Totals since the queue was created. Percentiles are over the last 100 entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeStats {
    /// Entries whose candidate landed on the base.
    pub landed: u64,
    /// Entries that left without landing, by reason.
    pub removed: BTreeMap<String, u64>,
    /// Check runs that were requested, including repetitions and control runs.
    pub check_runs: u64,
    /// Checks skipped because the same tree had passed.
    pub checks_reused: u64,
    /// Checks that failed and then passed on the same candidate.
    pub checks_flaky: u64,
    /// The share of concluded checks that were flaky, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flake_rate: Option<f64>,
    /// Check runs per entry that landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_runs_per_landing: Option<f64>,
    /// From enqueue to landing: median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnaround_p50_ms: Option<u64>,
    /// From enqueue to landing: 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnaround_p95_ms: Option<u64>,
    /// From enqueue to the start of its processing: median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p50_ms: Option<u64>,
    /// From enqueue to the start of its processing: 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p95_ms: Option<u64>,
}

/// A change to enqueue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewMergeEntry {
    /// On plain git, a branch.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub change: String,
    /// From 0, the most urgent, to 9; default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub priority: Option<u8>,
    /// The full name of the commit that the change must be at; refused if it is at another. If absent, the
    /// entry is pinned to the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^([0-9a-f]{40}|[0-9a-f]{64})$"))]
    pub sha: Option<String>,
}

/// How far back the history goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MergeEntriesQuery {
    /// How many of the last entry numbers are searched for entries that left the queue; default 20.
    pub history: Option<u32>,
}

/// Entries of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeEntries {
    /// Those in the queue, first in line first.
    pub waiting: Vec<MergeEntry>,
    /// Those that left the queue, newest first.
    pub history: Vec<MergeEntry>,
}

/// A change in the queue, or one that left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeEntry {
    /// The id of its queue.
    pub queue: String,
    /// The access namespace of its queue, where the tasks of its checks are.
    pub namespace: String,
    /// Its number in the queue; numbers only grow.
    pub entry: u64,
    /// On plain git, the branch.
    pub change: String,
    /// The commit that was enqueued, and the only one that lands: after a push to its branch the entry is
    /// ejected (`head_changed`), or pinned to the new commit if the base's configuration says `on_push =
    /// "retest"`.
    pub head: String,
    /// Counted from 1; absent once it left the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// From 0, the most urgent, to 9.
    pub priority: u8,
    /// `landed`, `failed` and `cancelled` are final.
    pub status: MergeStatus,
    /// Why it left without landing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MergeReason>,
    /// When it was enqueued.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub enqueued_at: Timestamp,
    /// The subject that enqueued it; absent in entries of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_by: Option<String>,
    /// When it was first processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<Timestamp>,
    /// When it left the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub completed_at: Option<Timestamp>,
    /// The candidate that is built or tested, or was last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<MergeCandidate>,
    /// The checks of that candidate.
    pub checks: Vec<MergeCheck>,
    /// A transient error that is being retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<MergeFault>,
    /// What landed; absent unless it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<MergeCertificate>,
}

/// What an entry is doing, or how it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MergeStatus {
    /// Waits for its turn.
    Pending,
    /// Its candidate is being built: the merge of its head onto the base.
    Updating,
    /// Checks run on the candidate.
    Checking,
    /// All checks passed; the base is about to move.
    Ready,
    /// The base moved to its candidate.
    Landed,
    /// Ejected: a conflict, a check that failed, a hook, a push to its branch, or an invalid configuration.
    Failed,
    /// Removed by a user, or because the change was closed, deleted or retargeted.
    Cancelled,
}

/// The merge of one exact head onto one exact base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCandidate {
    /// Counted per entry: a new base or head makes a new candidate.
    pub number: u32,
    /// The base commit it was built on.
    pub base: String,
    /// The commit that is merged onto it.
    pub head: String,
    /// The tree that is tested; absent while the merge is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The commit that lands; absent while the merge is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A check of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCheck {
    /// As in the configuration on the base branch.
    pub name: String,
    /// `open`, `passed`, `reused` (the same tree passed before), `flaky` (passed when repeated), `failed`,
    /// `unusable` (the candidate cannot be checked out), `broken_base` (fails on the base alone too) or
    /// `gave_up` (could not be run to its end).
    pub conclusion: String,
    /// In the order they were requested.
    pub runs: Vec<MergeRun>,
}

/// A run of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeRun {
    /// `candidate`, or `base` for a control run.
    pub on: String,
    /// The task that runs it, with the log; absent until it is enqueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// When it was requested.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub requested_at: Timestamp,
    /// `passed`, `failed`, `unusable`, `timed_out` or `lost`; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// How it ended, with the end of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The SHA-256 of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_hash: Option<String>,
}

/// A transient error that is retried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeFault {
    /// Failures in a row.
    pub count: u32,
    /// The error of the last try.
    pub message: String,
    /// Not retried before this instant.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub retry_at: Timestamp,
}

/// What landed, and the evidence that it was tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCertificate {
    /// The queue that it landed through.
    pub queue: String,
    /// The number of its entry.
    pub entry: u64,
    /// On plain git, the branch.
    pub change: String,
    /// The base commit before the landing.
    pub base: String,
    /// The commit that was merged onto it.
    pub head: String,
    /// The tree that was tested.
    pub tree: String,
    /// The base commit after the landing.
    pub commit: String,
    /// The checks that the tree passed.
    pub checks: Vec<MergeCertifiedCheck>,
    /// When the base moved, by the clock of the node that landed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub landed_at: Option<Timestamp>,
}

/// A check that a tree passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCertifiedCheck {
    /// As in the configuration on the base branch.
    pub name: String,
    /// The program and its arguments; empty in certificates of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// `passed`, `flaky` or `reused`; empty in certificates of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// The SHA-256 of the passing run's log; absent if the result was reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_hash: Option<String>,
    /// How many runs it took; 0 if reused.
    pub runs: u64,
}

/// The certificates of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCertificates {
    /// The newest landing first.
    pub items: Vec<MergeCertificate>,
}

/// A certificate verified against the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeVerified {
    /// The one that was verified.
    pub certificate: MergeCertificate,
    /// Where the repository differs from it; empty if it is valid.
    pub differences: Vec<String>,
}

/// A new priority of an entry or a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutMergePriority {
    /// From 0, the most urgent, to 9.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub priority: u8,
}

/// Pauses a merge queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PauseMerge {
    /// Shown to others; default `paused by an operator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1000))]
    pub reason: Option<String>,
}
