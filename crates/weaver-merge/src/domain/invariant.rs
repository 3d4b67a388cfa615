//! Invariants of every saved queue (seed 003, 1.2), and of the transition from one save to the next.

use std::collections::{HashMap, HashSet};

use super::{EntryId, MergeError, MergeQueue, QueueEntry, Status};

impl MergeQueue {
    /// Checks one queue: positions are contiguous from 0, only the head is processed, no change is there
    /// twice, and candidates match the statuses.
    pub fn validate(&self) -> Result<(), MergeError> {
        let mut seen = HashSet::with_capacity(self.entries.len());
        for (expected, entry) in self.entries.iter().enumerate() {
            if entry.position != expected {
                return Err(MergeError::InvalidPosition { expected, actual: entry.position });
            }
            if !seen.insert(entry.pull_request.id.as_str()) {
                return Err(MergeError::DuplicatePr(entry.pull_request.id.clone()));
            }
            // Serial mode: the prefix of processed entries has a length of at most one.
            if entry.is_processing() && expected > 0 {
                return Err(MergeError::MultipleProcessing(entry.id));
            }
            validate_entry(entry, self.next_entry)?;
        }
        Ok(())
    }

    /// Checks the transition from the queue saved before: every status changed along an edge of the table or
    /// not at all, no entry came back, and neither entry numbers nor the chain went back.
    pub fn validate_after(&self, before: &Self) -> Result<(), MergeError> {
        self.validate()?;
        let corrupted = |problem: String| Err(MergeError::QueueCorrupted(problem));
        if self.next_entry < before.next_entry {
            return corrupted("entry numbers went backwards".to_owned());
        }
        let sequence = |queue: &Self| queue.chain.as_ref().map(|chain| chain.link.sequence);
        if sequence(self) < sequence(before) {
            return corrupted("the chain of landings went backwards".to_owned());
        }
        let known: HashMap<EntryId, &QueueEntry> =
            before.entries.iter().map(|entry| (entry.id, entry)).collect();
        for entry in &self.entries {
            match known.get(&entry.id) {
                None if entry.id.0 < before.next_entry => {
                    return corrupted(format!("entry {} came back", entry.id));
                }
                None if entry.status != Status::Pending => {
                    return corrupted(format!("entry {} started as {:?}", entry.id, entry.status));
                }
                None => {}
                Some(was) if was.status == entry.status || was.status.edge(entry.status).is_some() => {}
                Some(was) => {
                    return corrupted(format!(
                        "entry {} went from {:?} to {:?}",
                        entry.id, was.status, entry.status
                    ));
                }
            }
        }
        Ok(())
    }
}

fn validate_entry(entry: &QueueEntry, next_entry: u64) -> Result<(), MergeError> {
    let corrupted = |problem: &str| Err(MergeError::QueueCorrupted(format!("entry {} {problem}", entry.id)));
    if entry.id.0 >= next_entry {
        return corrupted("has a number that was never assigned");
    }
    match entry.status {
        Status::Failed | Status::Cancelled => corrupted("has a final status but is still in the queue"),
        Status::Pending if entry.candidate.is_some() => corrupted("is pending but has a candidate"),
        Status::Checking | Status::Ready if entry.merged().is_none() => {
            corrupted("is being checked without a candidate")
        }
        Status::Checking | Status::Ready if entry.checks.is_empty() => {
            corrupted("is being checked without checks")
        }
        _ => Ok(()),
    }
}
