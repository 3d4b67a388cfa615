//! The queue: who comes, who leaves, in which order.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use super::{
    ChainHead, Declines, Departure, EntryId, ForeignMove, MergeError, Notice, Oid, PullRequestState,
    QueueEntry, QueueId, Reason, RunEnd, Status, Times,
};

/// The most entries a queue may have: its document must hold them all.
pub const ENTRIES_MAX: usize = 1000;
/// An entry's or a queue's priority if nobody says.
pub const PRIORITY_DEFAULT: u8 = 5;
/// The least urgent priority.
pub const PRIORITY_LOWEST: u8 = 9;
/// How many trees that passed are remembered.
pub const PASSED_MAX: usize = 32;

/// Changes in line for one base branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeQueue {
    /// Its identity.
    pub id: QueueId,
    /// Where the branch is.
    pub repository: Repository,
    /// The branch that moves.
    pub base_branch: String,
    /// From 0 to 9: which queue gets check slots first.
    pub priority: u8,
    /// Who waits, in order.
    pub entries: Vec<QueueEntry>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Why nothing new is started, if so.
    #[serde(default)]
    pub paused: Option<Pause>,
    /// The number of the next entry.
    pub next_entry: u64,
    /// Tasks that were told to stop and may still run: they count against the budget of checks.
    #[serde(default)]
    pub stopping: Vec<TaskId>,
    /// Trees that passed, newest last.
    #[serde(default)]
    pub passed: Vec<PassedTree>,
    /// What is still to be told.
    #[serde(default)]
    pub outbox: Vec<Notice>,
    /// What happened so far, in numbers.
    #[serde(default)]
    pub tally: Tally,
    /// Where the chain of links ends; none in a queue of an older version that was not looked at yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainHead>,
    /// What to do when others moved the base; as its repository's kind says if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_foreign: Option<OnForeign>,
    /// Entries that a hook declined in a row in the same words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declines: Option<Declines>,
}

/// What a queue does when others moved its base forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MergeOnForeign))]
#[serde(rename_all = "snake_case")]
pub enum OnForeign {
    /// What they brought is taken as it is, named as untested.
    Accept,
    /// Nothing lands before an operator accepts it.
    Pause,
}

/// Where a queue's branches are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Its name here.
    pub name: String,
    /// Its place: a path for plain git.
    pub location: String,
}

impl Repository {
    /// One at a path, named after it unless it has a name.
    pub fn at(location: String, name: Option<String>) -> Self {
        let stem = || Path::new(&location).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.or_else(stem).unwrap_or_else(|| "repository".to_owned());
        Self { name, location }
    }
}

/// Why a queue does nothing new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Why, for people.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// What kind of reason it is.
    #[serde(default)]
    pub cause: PauseCause,
}

/// What kind of reason a queue paused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCause {
    /// An operator asked for it, or a reason without a kind of its own.
    #[default]
    Other,
    /// Others moved the base forward.
    Foreign,
    /// The base no longer has what landed.
    MovedBack,
    /// The repository refuses landings: an unfit hook, or a rule of its own.
    Refused,
    /// A hook declined several changes in the same words.
    Declined,
}

impl PauseCause {
    /// As it is written.
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

/// A tree that passed a set of checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedTree {
    /// The tree.
    pub tree: Oid,
    /// The set.
    pub checks_id: String,
}

/// Counters for metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Changes that landed.
    pub landed: u64,
    /// Changes that left otherwise, by reason.
    pub removed: BTreeMap<String, u64>,
    /// Runs of checks that were asked for.
    pub runs: u64,
    /// Checks that failed and then passed on the same candidate.
    pub flaky: u64,
    /// Checks not run because the tree had passed.
    pub reused: u64,
    /// Checks that ran and came to a judgement about the change: they passed, or it was to blame.
    #[serde(default)]
    pub judged: u64,
    /// From coming to landing.
    #[serde(default)]
    pub turnaround: Times,
    /// From coming to being processed, of those that left.
    #[serde(default)]
    pub wait: Times,
}

impl MergeQueue {
    /// An empty queue.
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
        }
    }

    /// Puts a change in line: behind everybody of its priority or a more urgent one.
    pub fn enqueue(
        &mut self,
        change: &PullRequestState,
        priority: u8,
        now: Timestamp,
    ) -> Result<EntryId, MergeError> {
        let id = &change.pull_request.id;
        if let Some(entry) = self.entries.iter().find(|entry| entry.pull_request.id == *id) {
            return Err(MergeError::AlreadyInQueue {
                pull_request: id.clone(),
                position: entry.position + 1,
            });
        }
        change.validate(&self.base_branch)?;
        if self.entries.len() >= ENTRIES_MAX {
            return Err(MergeError::QueueFull(self.entries.len()));
        }
        let id = EntryId(self.next_entry);
        self.next_entry += 1;
        let entry = QueueEntry {
            id,
            pull_request: change.pull_request.clone(),
            position: 0,
            priority: priority.min(PRIORITY_LOWEST),
            status: Status::Pending,
            enqueued_at: now,
            started_at: None,
            completed_at: None,
            candidates: 0,
            candidate: None,
            checks: Vec::new(),
            trouble: None,
        };
        let position = self.insert(entry.clone());
        self.outbox.push(Notice::Added { entry: Box::new(entry), position: position + 1 });
        Ok(id)
    }

    /// Takes out the first entry.
    pub fn dequeue(&mut self) -> Option<QueueEntry> {
        let first = self.entries.first()?.id;
        self.remove(first).ok()
    }

    /// Takes out an entry.
    pub fn remove(&mut self, id: EntryId) -> Result<QueueEntry, MergeError> {
        let index = self.index(id)?;
        let entry = self.entries.remove(index);
        self.reindex();
        Ok(entry)
    }

    /// Takes out an entry that landed or cannot, stops its checks and leaves word of it. Answers the tasks to
    /// stop.
    pub fn depart(
        &mut self,
        id: EntryId,
        departure: Departure,
        now: Timestamp,
    ) -> Result<Vec<TaskId>, MergeError> {
        let stopped = self.stop_checks(id)?;
        let mut entry = self.remove(id)?;
        entry.completed_at = Some(now);
        if let Some(started_at) = entry.started_at {
            self.tally.wait.add(started_at.since(entry.enqueued_at));
        }
        match &departure {
            Departure::Landed => {
                self.tally.landed += 1;
                self.declines = None;
                self.tally.turnaround.add(now.since(entry.enqueued_at));
            }
            Departure::Removed(reason) => {
                entry.status = reason.status();
                *self.tally.removed.entry(reason.word().to_owned()).or_default() += 1;
            }
        }
        self.outbox.push(Notice::Left { entry: Box::new(entry), departure, link: None });
        Ok(stopped)
    }

    /// Takes out an entry because somebody wants it out.
    pub fn cancel(&mut self, id: EntryId, now: Timestamp) -> Result<Vec<TaskId>, MergeError> {
        if self.entry(id)?.is_landing() {
            return Err(MergeError::Landing(id));
        }
        self.depart(id, Departure::Removed(Reason::Cancelled), now)
    }

    /// Moves the runs of an entry that have not ended to those that are stopping.
    pub(crate) fn stop_checks(&mut self, id: EntryId) -> Result<Vec<TaskId>, MergeError> {
        let index = self.index(id)?;
        let mut stopped = Vec::new();
        for run in self.entries[index].checks.iter_mut().flat_map(|check| &mut check.runs) {
            if run.end.is_none() {
                run.end = Some(RunEnd::Lost { reason: "it was stopped".to_owned() });
                stopped.extend(run.task);
            }
        }
        self.stopping.extend(&stopped);
        Ok(stopped)
    }

    /// Gives an entry another priority: it goes behind everybody of that priority, and never before one that
    /// is processed.
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

    /// Where an entry is, counted from 1, for people.
    pub fn position(&self, id: EntryId) -> Option<usize> {
        self.index(id).ok().map(|index| index + 1)
    }

    /// The first entry: the one that is or will be processed.
    pub fn current_entry(&self) -> Option<&QueueEntry> {
        self.entries.first()
    }

    /// An entry.
    pub fn entry(&self, id: EntryId) -> Result<&QueueEntry, MergeError> {
        self.index(id).map(|index| &self.entries[index])
    }

    pub(crate) fn entry_mut(&mut self, id: EntryId) -> Result<&mut QueueEntry, MergeError> {
        self.index(id).map(|index| &mut self.entries[index])
    }

    /// Stops anything new, and leaves word of it once.
    pub fn pause(&mut self, reason: String, now: Timestamp) {
        self.pause_for(PauseCause::Other, reason, now);
    }

    /// The same, for a reason of a kind. One that became another of the same kind is told again.
    pub fn pause_for(&mut self, cause: PauseCause, reason: String, now: Timestamp) {
        let is_news = self
            .paused
            .as_ref()
            .is_none_or(|pause| cause != PauseCause::Other && pause.cause == cause && pause.reason != reason);
        if is_news {
            self.outbox.push(Notice::Paused { reason: reason.clone() });
            self.paused = Some(Pause { reason, since: now, cause });
        }
    }

    /// Takes what others did to the base as it is: a link of the chain says so.
    pub fn accept(&mut self, moved: ForeignMove, accepted_by: String) {
        self.outbox.push(Notice::Foreign { moved: Box::new(moved), accepted_by, link: None });
    }

    /// Counts an entry that a hook declined; says whether that makes `limit` different ones in a row in the
    /// same words.
    pub(crate) fn note_declined(&mut self, id: EntryId, text: &str, limit: usize) -> bool {
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

    /// Goes on.
    pub fn resume(&mut self) {
        self.paused = None;
    }

    /// How many checks are under way, those that are stopping included.
    pub fn checks_under_way(&self) -> usize {
        let open =
            |entry: &QueueEntry| entry.checks.iter().map(|check| check.open_runs().count()).sum::<usize>();
        self.entries.iter().map(open).sum::<usize>() + self.stopping.len()
    }

    fn index(&self, id: EntryId) -> Result<usize, MergeError> {
        self.entries.iter().position(|entry| entry.id == id).ok_or(MergeError::EntryNotFound(id))
    }

    fn insert(&mut self, entry: QueueEntry) -> usize {
        let goes_first = |other: &QueueEntry| other.is_processing() || other.priority <= entry.priority;
        let index = self.entries.iter().rposition(goes_first).map_or(0, |last| last + 1);
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
