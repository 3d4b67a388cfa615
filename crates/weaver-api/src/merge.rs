//! Merge queues: changes in line for a branch, and what became of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;
use weaver_merge::domain::OnForeign;

use super::MergeChain;

/// A base branch that gets a queue.
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
    /// The branch that changes land on; `main` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub base_branch: Option<String>,
    /// What it is called here; the name of its directory if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 100))]
    pub name: Option<String>,
    /// What to do when others moved the branch forward; as the repository's kind says if not given: on plain
    /// git, `pause`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_foreign: Option<OnForeign>,
}

/// The merge queues there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeQueues {
    /// All of them, by name.
    pub items: Vec<MergeQueue>,
}

/// The queue of a base branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeQueue {
    /// `repository:branch`.
    pub id: String,
    /// The repository's name.
    pub repository: String,
    /// Where it is, on the server's machine.
    pub location: String,
    /// The branch that moves.
    pub base_branch: String,
    /// From 0 to 9: which queue gets its checks run first.
    pub priority: u8,
    /// How many changes are in line.
    pub waiting: u64,
    /// Why nothing new is started, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<MergePause>,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// What it does when others moved the branch forward.
    pub on_foreign: OnForeign,
    /// Where the chain of its landings ends; none before it was first looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<MergeChain>,
    /// What happened so far, in numbers.
    pub figures: MergeFigures,
}

/// Why a queue starts nothing new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergePause {
    /// For people.
    pub reason: String,
    /// `foreign` (others moved the base), `moved_back` (the base no longer has what landed), `refused` (the
    /// repository refuses landings), `declined` (a hook declined several changes in the same words) or
    /// `other`.
    pub cause: String,
    /// Since when.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
}

/// What happened in a queue so far. Percentiles are of the last 100.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeFigures {
    /// Changes that landed.
    pub landed: u64,
    /// Changes that left otherwise, by reason.
    pub removed: BTreeMap<String, u64>,
    /// Runs of checks that were asked for, repetitions and control runs included.
    pub check_runs: u64,
    /// Checks not run because the same tree had passed.
    pub checks_reused: u64,
    /// Checks that failed and then passed on the same candidate.
    pub checks_flaky: u64,
    /// Of the checks that came to a judgement, the share that was flaky.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flake_rate: Option<f64>,
    /// Runs of checks for each change that landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_runs_per_landing: Option<f64>,
    /// From coming to landing: half took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnaround_p50_ms: Option<u64>,
    /// From coming to landing: 95 of 100 took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnaround_p95_ms: Option<u64>,
    /// From coming to being processed: half took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p50_ms: Option<u64>,
    /// From coming to being processed: 95 of 100 took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p95_ms: Option<u64>,
}

/// A change to be put in line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewMergeEntry {
    /// The change: on plain git, a branch.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub change: String,
    /// From 0, the most urgent, to 9; 5 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub priority: Option<u8>,
}

/// Which entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MergeEntriesQuery {
    /// How many of the last numbers are looked at for those that left; 20 if not given.
    pub departed: Option<u32>,
}

/// Entries of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeEntries {
    /// Those in line, the first first.
    pub waiting: Vec<MergeEntry>,
    /// Those that left, the newest first.
    pub departed: Vec<MergeEntry>,
}

/// A change in line, or one that was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeEntry {
    /// The queue.
    pub queue: String,
    /// Its number in the queue. Numbers only grow.
    pub entry: u64,
    /// The change.
    pub change: String,
    /// What it was when it came.
    pub head: String,
    /// Where it is, counted from 1; none once it has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// From 0, the most urgent, to 9.
    pub priority: u8,
    /// What it is doing, or how it left.
    pub status: MergeStatus,
    /// Why it left without landing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MergeReason>,
    /// When it came.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub enqueued_at: Timestamp,
    /// When it was first processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<Timestamp>,
    /// When it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub completed_at: Option<Timestamp>,
    /// What is built or tested, or was last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<MergeCandidate>,
    /// The checks of the candidate.
    pub checks: Vec<MergeCheck>,
    /// What goes wrong and is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<MergeTrouble>,
    /// What landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<MergeCertificate>,
}

/// What an entry is doing, or how it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MergeStatus {
    /// It waits.
    Pending,
    /// Its candidate is built: the merge of its head onto the base.
    Updating,
    /// Checks run on the candidate.
    Checking,
    /// All passed; the base is about to move.
    Ready,
    /// The base moved to its candidate.
    Landed,
    /// It left: a conflict, or a check that failed.
    Failed,
    /// It left: somebody or something took it out.
    Cancelled,
}

/// Why an entry left without landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeReason {
    /// `conflicted`, `checks_failed`, `hook_declined`, `already_merged`, `merged_outside`, `closed`,
    /// `branch_deleted`, `retargeted`, `draft`, `trigger_removed` or `cancelled`.
    pub reason: String,
    /// The files that conflict, the checks that failed, or what a hook said.
    pub details: Vec<String>,
}

/// The merge of one exact head onto one exact base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCandidate {
    /// Its number among those of the entry.
    pub number: u32,
    /// Where the base was.
    pub base: String,
    /// What was merged onto it.
    pub head: String,
    /// What is tested; none while it is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// What lands; none while it is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A check of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCheck {
    /// Its name in the configuration of the base.
    pub name: String,
    /// `open`, `passed`, `reused` (the same tree passed before), `flaky` (passed when repeated), `failed`,
    /// `broken_base` (fails on the base alone too) or `gave_up` (cannot be run to its end).
    pub judgement: String,
    /// Its runs, in the order they were asked for.
    pub runs: Vec<MergeRun>,
}

/// A run of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeRun {
    /// `candidate`, or `base` for a control run.
    pub on: String,
    /// The task; its log is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// When it was asked for.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub requested_at: Timestamp,
    /// `passed`, `failed`, `timed_out` or `lost`; none while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// How it ended, with the end of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The SHA-256 of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_hash: Option<String>,
}

/// An error that should pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeTrouble {
    /// How often in a row.
    pub count: u32,
    /// What it said last.
    pub message: String,
    /// Not tried again before.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub retry_at: Timestamp,
}

/// What landed, and what says that it was tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCertificate {
    /// Through which queue.
    pub queue: String,
    /// By which entry.
    pub entry: u64,
    /// The change.
    pub change: String,
    /// Where the base was.
    pub base: String,
    /// What was merged onto it.
    pub head: String,
    /// What was tested.
    pub tree: String,
    /// Where the base is now.
    pub commit: String,
    /// What the tree passed.
    pub checks: Vec<MergeCertifiedCheck>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub landed_at: Option<Timestamp>,
}

/// A check that a tree passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCertifiedCheck {
    /// Which.
    pub name: String,
    /// The program and its arguments; nothing in certificates of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// `passed`, `flaky` or `reused`; nothing in certificates of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// The SHA-256 of the log of the run that passed; none if the same tree had passed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_hash: Option<String>,
    /// How many runs it took.
    pub runs: u64,
}

/// The certificates of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeCertificates {
    /// The newest first.
    pub items: Vec<MergeCertificate>,
}

/// What came of checking a certificate against the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeVerified {
    /// What was checked.
    pub certificate: MergeCertificate,
    /// What is not as it says; nothing if all is well.
    pub differences: Vec<String>,
}

/// A priority to be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutMergePriority {
    /// From 0, the most urgent, to 9.
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub priority: u8,
}

/// A pause to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PauseMerge {
    /// Why, for others; `paused by hand` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1000))]
    pub reason: Option<String>,
}
