//! The merge queue of one base branch: enqueue, remove, order and priority.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weaver_core::id::TaskId;
use weaver_core::name::Namespace;
use weaver_core::time::Timestamp;

use super::{
    ChainHead, Declines, DurationHistogram, EntryId, EntryOutcome, ForeignMove, MergeError, Notice, Oid,
    QueueEntry, QueueId, Reason, Removal, RunOutcome,
};

/// Entries of one queue: its document must hold them all.
pub const ENTRIES_MAX: usize = 1000;
/// Default priority of entries and queues.
pub const PRIORITY_DEFAULT: u8 = 5;
/// The least urgent priority; higher numbers are clamped to it.
pub const PRIORITY_LOWEST: u8 = 9;
/// Passed trees that are remembered for reuse.
pub const PASSED_MAX: usize = 32;

/// The merge queue of one base branch. Stored as one document, written by compare-and-set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeQueue {
    /// Composed as `<repository>:<base branch>`.
    pub id: QueueId,
    /// The repository that has the branch.
    pub repository: Repository,
    /// The branch that entries land on.
    pub base_branch: String,
    /// 0 to 9; the lowest number gets check slots first.
    pub priority: u8,
    /// In landing order; only the first is processed.
    pub entries: Vec<QueueEntry>,
    /// By the clock of the node that created it.
    pub created_at: Timestamp,
    /// While set, nothing new is started.
    #[serde(default)]
    pub paused: Option<Pause>,
    /// Number of the next entry; only grows.
    pub next_entry: u64,
    /// Cancelled check tasks that may still run: they count against `check_budget`.
    #[serde(default)]
    pub stopping: Vec<TaskId>,
    /// Trees that passed their checks, newest last; at most [`PASSED_MAX`].
    #[serde(default)]
    pub passed: Vec<PassedTree>,
    /// Notices not yet published.
    #[serde(default)]
    pub outbox: Vec<Notice>,
    /// Counters since the queue was created.
    #[serde(default)]
    pub tally: Tally,
    /// Head of the chain of links; none until a queue of an older version is first reconciled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainHead>,
    /// What to do when the base is changed outside the queue; none for the forge's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_foreign: Option<OnForeign>,
    /// Consecutive entries that a hook declined with the same text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declines: Option<Declines>,
    /// Access namespace: permissions are checked there, and its tasks are there. None for the namespace of
    /// the engine, where all documents are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// Set while the queue is being removed, and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
}

/// What a queue does when its base is moved forward outside the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MergeOnForeign))]
#[serde(rename_all = "snake_case")]
pub enum OnForeign {
    /// Accept the commits and record them as untested.
    Accept,
    /// Pause until an operator accepts the commits.
    Pause,
}

/// The repository of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Part of the queue's id.
    pub name: String,
    /// A path for plain git.
    pub location: String,
}

impl Repository {
    /// A repository at a path, named after the path's file stem by default.
    pub fn at(location: String, name: Option<String>) -> Self {
        let stem = || Path::new(&location).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.or_else(stem).unwrap_or_else(|| "repository".to_owned());
        Self { name, location }
    }
}

/// Why and since when a queue is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// For people, with what to do.
    pub reason: String,
    /// By the clock of the node that paused it.
    pub since: Timestamp,
    /// The category, for programs.
    #[serde(default)]
    pub cause: PauseCause,
}

/// Category of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCause {
    /// By an operator, or a reason without a category of its own.
    #[default]
    Other,
    /// The base was moved forward outside the queue.
    Foreign,
    /// The base was rewound: it no longer contains what landed.
    MovedBack,
    /// The repository refuses landings: an insecure hook, or a rule of its own.
    Refused,
    /// A hook declined several changes with the same text.
    Declined,
}

impl PauseCause {
    /// The stored word, also in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Foreign => "foreign",
            Self::MovedBack => "moved_back",
            Self::Refused => "refused",
            Self::Declined => "declined",
        }
    }
}

/// A tree that passed a check set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedTree {
    /// Object name of the tree.
    pub tree: Oid,
    /// Id of the check set.
    pub checks_id: String,
}

/// Counters since the queue was created, for metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Entries that landed, in total.
    pub landed: u64,
    /// Removed entries by [`Reason::word`].
    pub removed: BTreeMap<String, u64>,
    /// Check runs that were requested.
    pub runs: u64,
    /// Flaky checks: failed, then passed on the same candidate.
    pub flaky: u64,
    /// Checks skipped because the same tree had passed.
    pub reused: u64,
    /// Checks that ran and reached a conclusion about the change: passed, flaky or culprit.
    #[serde(default, rename = "judged")]
    pub concluded: u64,
    /// Time from enqueue to landing.
    #[serde(default)]
    pub turnaround: DurationHistogram,
    /// Time from enqueue to the first candidate, of completed entries.
    #[serde(default)]
    pub wait: DurationHistogram,
}

impl MergeQueue {
    /// An empty queue with the default priority.
    pub fn new(repository: Repository, base_branch: &str, now: Timestamp) -> Self {
        Self {
            id: QueueId::of(&repository.name, base_branch),
            repository,
            base_branch: base_branch.to_owned(),
            priority: PRIORITY_DEFAULT,
            entries: Vec::new(),
            created_at: now,
            paused: None,
            next_entry: 1,
            stopping: Vec::new(),
            passed: Vec::new(),
            outbox: Vec::new(),
            tally: Tally::default(),
            chain: None,
            on_foreign: None,
            declines: None,
            namespace: None,
            removal: None,
        }
    }

    /// Removes the first entry.
    pub fn dequeue(&mut self) -> Option<QueueEntry> {
        let first = self.entries.first()?.id;
        self.remove(first).ok()
    }

    /// Removes an entry without a notice; see [`complete`](Self::complete).
    pub fn remove(&mut self, id: EntryId) -> Result<QueueEntry, MergeError> {
        let index = self.index(id)?;
        let entry = self.entries.remove(index);
        self.reindex();
        Ok(entry)
    }

    /// Removes an entry that landed or cannot, stops its checks and adds a notice. Returns the tasks to
    /// cancel.
    pub fn complete(
        &mut self,
        id: EntryId,
        outcome: EntryOutcome,
        now: Timestamp,
    ) -> Result<Vec<TaskId>, MergeError> {
        let stopped = self.stop_checks(id)?;
        let mut entry = self.remove(id)?;
        entry.completed_at = Some(now);
        if let Some(started_at) = entry.started_at {
            self.tally.wait.add(started_at.since(entry.enqueued_at));
        }
        match &outcome {
            EntryOutcome::Landed => {
                self.tally.landed += 1;
                self.declines = None;
                self.tally.turnaround.add(now.since(entry.enqueued_at));
            }
            EntryOutcome::Removed(reason) => {
                entry.status = reason.status();
                *self.tally.removed.entry(reason.word().to_owned()).or_default() += 1;
            }
        }
        self.outbox.push(Notice::Completed { entry: Box::new(entry), outcome, link: None });
        Ok(stopped)
    }

    /// Removes an entry at an operator's request; refused while it is landing.
    pub fn cancel(&mut self, id: EntryId, now: Timestamp) -> Result<Vec<TaskId>, MergeError> {
        if self.entry(id)?.is_landing() {
            return Err(MergeError::Landing(id));
        }
        self.complete(id, EntryOutcome::Removed(Reason::Cancelled), now)
    }

    /// Marks the active runs of an entry as lost, and their tasks as stopping.
    pub(crate) fn stop_checks(&mut self, id: EntryId) -> Result<Vec<TaskId>, MergeError> {
        let index = self.index(id)?;
        let mut stopped = Vec::new();
        for run in self.entries[index].checks.iter_mut().flat_map(|check| &mut check.runs) {
            if run.outcome.is_none() {
                run.outcome = Some(RunOutcome::Lost { reason: "stopped by the merge queue".to_owned() });
                stopped.extend(run.task);
            }
        }
        self.stopping.extend(&stopped);
        Ok(stopped)
    }

    /// Changes an entry's priority: it moves behind all entries of that priority, and never ahead of one that
    /// is being processed. Returns its position, from 1.
    pub fn set_priority(&mut self, id: EntryId, priority: u8) -> Result<usize, MergeError> {
        let index = self.index(id)?;
        let priority = priority.min(PRIORITY_LOWEST);
        if self.entries[index].is_processing() || self.entries[index].priority == priority {
            self.entries[index].priority = priority;
            return Ok(index + 1);
        }
        let mut entry = self.entries.remove(index);
        entry.priority = priority;
        Ok(self.insert(entry) + 1)
    }

    /// Position of an entry, from 1.
    pub fn position(&self, id: EntryId) -> Option<usize> {
        self.index(id).ok().map(|index| index + 1)
    }

    /// The head of the queue: the entry that is or will be processed.
    pub fn current_entry(&self) -> Option<&QueueEntry> {
        self.entries.first()
    }

    /// Looks an entry up.
    pub fn entry(&self, id: EntryId) -> Result<&QueueEntry, MergeError> {
        self.index(id).map(|index| &self.entries[index])
    }

    pub(crate) fn entry_mut(&mut self, id: EntryId) -> Result<&mut QueueEntry, MergeError> {
        self.index(id).map(|index| &mut self.entries[index])
    }

    /// Pauses the queue, with one notice. A queue that is paused already keeps its reason.
    pub fn pause(&mut self, reason: String, now: Timestamp) {
        self.pause_for(PauseCause::Other, reason, now);
    }

    /// Pauses the queue for a category of reasons. A changed reason of the same category replaces the old
    /// one, with another notice.
    pub fn pause_for(&mut self, cause: PauseCause, reason: String, now: Timestamp) {
        let is_new = self
            .paused
            .as_ref()
            .is_none_or(|pause| cause != PauseCause::Other && pause.cause == cause && pause.reason != reason);
        if is_new {
            self.outbox.push(Notice::Paused { reason: reason.clone() });
            self.paused = Some(Pause { reason, since: now, cause });
        }
    }

    /// Accepts a change of the base outside the queue; a link of the chain will record it.
    pub fn accept(&mut self, moved: ForeignMove, accepted_by: String) {
        self.outbox.push(Notice::Foreign { moved: Box::new(moved), accepted_by, link: None });
    }

    /// Counts an entry that a hook declined. True if that makes `limit` different entries in a row with the
    /// same text.
    pub(crate) fn record_decline(&mut self, id: EntryId, text: &str, limit: usize) -> bool {
        let mut declines = self.declines.take().filter(|declines| declines.text == text);
        let known = declines.get_or_insert_with(|| Declines { text: text.to_owned(), entries: Vec::new() });
        if !known.entries.contains(&id) {
            known.entries.push(id);
        }
        if known.entries.len() >= limit {
            return true;
        }
        self.declines = declines;
        false
    }

    /// Clears the pause, if there is one.
    pub fn resume(&mut self) {
        self.paused = None;
    }

    /// Check runs that count against `check_budget`, including those being cancelled.
    pub fn active_checks(&self) -> usize {
        let open =
            |entry: &QueueEntry| entry.checks.iter().map(|check| check.open_runs().count()).sum::<usize>();
        self.entries.iter().map(open).sum::<usize>() + self.stopping.len()
    }

    fn index(&self, id: EntryId) -> Result<usize, MergeError> {
        self.entries.iter().position(|entry| entry.id == id).ok_or(MergeError::EntryNotFound(id))
    }

    pub(super) fn insert(&mut self, entry: QueueEntry) -> usize {
        let is_ahead = |other: &QueueEntry| other.is_processing() || other.priority <= entry.priority;
        let index = self.entries.iter().rposition(is_ahead).map_or(0, |last| last + 1);
        self.entries.insert(index, entry);
        self.reindex();
        index
    }

    fn reindex(&mut self) {
        for (position, entry) in self.entries.iter_mut().enumerate() {
            entry.position = position;
        }
    }
}
