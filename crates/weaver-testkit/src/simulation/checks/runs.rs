//! Executions as time intervals.

use std::collections::BTreeMap;

use weaver_core::id::TaskKey;
use weaver_core::time::Timestamp;
use weaver_runtime::StopReason;

use crate::simulation::history::{Entry, History, Run, RunOutcome, What};

/// One execution from start to end.
#[derive(Debug)]
pub(super) struct Span<'a> {
    pub(super) run: &'a Run,
    pub(super) began_at: Timestamp,
    pub(super) ended_at: Timestamp,
    /// Indexes in the history: several events can have the same time.
    pub(super) began: usize,
    pub(super) ended: usize,
    pub(super) end: Option<RunOutcome>,
    pub(super) stop_requested: Option<(Timestamp, StopReason)>,
}

impl Span<'_> {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.began < other.ended && other.began < self.ended
    }

    pub(super) fn is_at(&self, place: usize) -> bool {
        self.began < place && place < self.ended
    }
}

/// All executions, in order of their start.
pub(super) fn spans(history: &History) -> Vec<Span<'_>> {
    let mut spans: Vec<Span<'_>> = Vec::new();
    let mut open: BTreeMap<(&TaskKey, u64, &str, u32), usize> = BTreeMap::new();
    for (place, Entry { at, what }) in history.entries.iter().enumerate() {
        match what {
            What::Began(run) => {
                open.insert(name(run), spans.len());
                let (began_at, ended_at, began, ended) = (*at, Timestamp::MAX, place, usize::MAX);
                spans.push(Span { run, began_at, ended_at, began, ended, end: None, stop_requested: None });
            }
            What::StopRequested(run, reason) => {
                if let Some(index) = open.get(&name(run)) {
                    spans[*index].stop_requested = Some((*at, *reason));
                }
            }
            What::Ended(run, end) => {
                if let Some(index) = open.remove(&name(run)) {
                    let span = &mut spans[index];
                    (span.ended_at, span.ended, span.end) = (*at, place, Some(*end));
                }
            }
            _ => {}
        }
    }
    spans
}

fn name(run: &Run) -> (&TaskKey, u64, &str, u32) {
    (&run.key, run.fence, &run.worker, run.life)
}
