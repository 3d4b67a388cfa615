//! The result of a check that reads every record of a store.

use std::fmt;

use crate::quarantine::{QUARANTINE_MAX, RecordKind, Unreadable};

/// A record that a check could not read. Its names are plain text: an invalid name may be what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRecord {
    /// Task, queue settings, runner or document.
    pub kind: RecordKind,
    /// Its namespace as stored.
    pub namespace: String,
    /// Its id as stored: of a document, `kind/id`.
    pub id: String,
    /// Why it cannot be read.
    pub reason: Unreadable,
    /// The state of a task in the store's own word, if that much can be read.
    pub state: Option<String>,
    /// The serial key that a live task holds.
    pub serial_key: Option<String>,
    /// Whether a live task takes a slot of its queue's concurrency limit.
    pub holds_slot: bool,
}

impl UnreadableRecord {
    /// A record of which nothing more is known.
    pub fn new(
        kind: RecordKind,
        namespace: impl Into<String>,
        id: impl Into<String>,
        reason: Unreadable,
    ) -> Self {
        let (state, serial_key, holds_slot) = (None, None, false);
        Self { kind, namespace: namespace.into(), id: id.into(), reason, state, serial_key, holds_slot }
    }

    /// Whether it holds neither a serial key nor a slot, so that no task waits for it.
    pub fn holds_nothing(&self) -> bool {
        self.serial_key.is_none() && !self.holds_slot
    }
}

impl fmt::Display for UnreadableRecord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}/{}", self.kind, self.namespace, self.id)?;
        if let Some(state) = &self.state {
            write!(out, " ({state})")?;
        }
        write!(out, ": {}", self.reason)
    }
}

/// Every record of a store, counted, and those that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Tasks that were read, live and finished, readable or not.
    pub tasks: u64,
    /// Queues with settings, readable or not.
    pub queues: u64,
    /// Heartbeats of workers, readable or not.
    pub runners: u64,
    /// Documents of every kind, readable or not.
    pub documents: u64,
    /// The first [`QUARANTINE_MAX`] unreadable records, in the order they were read.
    pub unreadable: Vec<UnreadableRecord>,
    /// How many more there are: a table that is entirely unreadable must not fill the memory.
    pub unlisted: u64,
    /// Whether the check was stopped before everything was read.
    pub is_cut_short: bool,
}

impl CheckReport {
    /// Counts a record that was read.
    pub fn count(&mut self, kind: RecordKind) {
        *match kind {
            RecordKind::Task => &mut self.tasks,
            RecordKind::QueueSettings => &mut self.queues,
            RecordKind::Runner => &mut self.runners,
            RecordKind::Document => &mut self.documents,
        } += 1;
    }

    /// Counts a record, adds it if it could not be read, and reports progress.
    pub fn met(
        &mut self,
        kind: RecordKind,
        unreadable: Option<UnreadableRecord>,
        progress: CheckProgress<'_>,
    ) {
        self.count(kind);
        unreadable.into_iter().for_each(|found| self.add(found));
        self.is_cut_short |= !progress(self.records());
    }

    /// Adds an unreadable record; above [`QUARANTINE_MAX`] it is only counted.
    pub fn add(&mut self, found: UnreadableRecord) {
        if self.unreadable.len() < QUARANTINE_MAX {
            self.unreadable.push(found);
        } else {
            self.unlisted += 1;
        }
    }

    /// How many records were read, readable or not.
    pub fn records(&self) -> u64 {
        self.tasks + self.queues + self.runners + self.documents
    }

    /// Whether every record could be read.
    pub fn is_clean(&self) -> bool {
        self.unreadable.is_empty()
    }

    /// Whether a record is damaged. A format that only a newer Weaver knows is not damage.
    pub fn is_damaged(&self) -> bool {
        self.unreadable.iter().any(|found| matches!(found.reason, Unreadable::Undecodable { .. }))
    }
}

/// Called with the number of records read so far; returns whether to continue.
pub type CheckProgress<'a> = &'a (dyn Fn(u64) -> bool + Send + Sync);

/// Decodes a document's kind and body, or returns why they cannot be read. A store does not know what bodies
/// mean: the parts of Weaver that write them do.
pub type DocumentReader<'a> = &'a (dyn Fn(&str, &[u8]) -> Result<(), String> + Send + Sync);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_unreadable_but_not_damage() {
        let mut report = CheckReport::default();
        report.count(RecordKind::Task);
        assert!(report.is_clean() && report.records() == 1);
        let newer = Unreadable::UnknownFormat { found: 2, known: 1 };
        report.add(UnreadableRecord::new(RecordKind::Task, "a", "1", newer));
        assert!(!report.is_clean() && !report.is_damaged());
        let why = Unreadable::Undecodable { reason: "labels".to_owned() };
        report.add(UnreadableRecord::new(RecordKind::Task, "a", "2", why));
        assert!(report.is_damaged());
        assert_eq!(report.unreadable[1].to_string(), "task a/2: it cannot be decoded: labels");
    }

    #[test]
    fn unreadable_records_beyond_the_list_are_counted() {
        let mut report = CheckReport::default();
        let why = || Unreadable::Undecodable { reason: String::new() };
        (0..=QUARANTINE_MAX).for_each(|id| {
            report.add(UnreadableRecord::new(RecordKind::Task, "a", id.to_string(), why()));
        });
        assert_eq!((report.unreadable.len(), report.unlisted), (QUARANTINE_MAX, 1));
    }
}
