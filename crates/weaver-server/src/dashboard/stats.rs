//! Statistics of the last hour, from the stream `stats` that workers append to every minute.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use weaver_core::limits::PAGE_MAX;
use weaver_core::ports::{Entry, ReadFrom, Seq, StreamKey};

use super::view::View;
use crate::problem::Problem;

pub(super) const MINUTES: usize = 60;
/// Pages of entries read; beyond, the beginning of the hour is missing.
const PAGES_MAX: usize = 8;

/// An entry of the stream `stats`, as workers write it.
#[derive(Deserialize)]
struct Written {
    queues: BTreeMap<String, WrittenQueue>,
}

#[derive(Deserialize)]
struct WrittenQueue {
    succeeded: u64,
    failed: u64,
    #[serde(default)]
    wait_ms_log2: Vec<u64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct QueueHour {
    /// Histogram of wait times: bucket `i` counts those under 2^i ms.
    waits: Vec<u64>,
}

impl QueueHour {
    fn add(&mut self, waits: &[u64]) {
        if self.waits.len() < waits.len() {
            self.waits.resize(waits.len(), 0);
        }
        for (mine, theirs) in self.waits.iter_mut().zip(waits) {
            *mine += theirs;
        }
    }

    /// The percentile of the waits, rounded up to the bound of its bucket; `None` without any.
    pub(super) fn wait_within(&self, percent: u64) -> Option<Duration> {
        let total: u64 = self.waits.iter().sum();
        let wanted = (total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.waits.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_millis(1 << bucket))
    }
}

#[derive(Debug, Default)]
pub(super) struct LastHour {
    /// Attempts that succeeded and failed, per minute, oldest first.
    pub(super) minutes: Vec<(u64, u64)>,
    queues: BTreeMap<String, QueueHour>,
}

impl LastHour {
    pub(super) async fn read(view: &View) -> Result<Self, Problem> {
        let stream = StreamKey::new(view.namespace.clone(), "stats");
        let begin = view.now.saturating_sub(Duration::from_secs(60 * MINUTES as u64));
        let mut hour = Self { minutes: vec![(0, 0); MINUTES], queues: BTreeMap::new() };
        let mut from = ReadFrom::Last(PAGE_MAX);
        for _ in 0..PAGES_MAX {
            let entries = view.state.store.read_entries(&stream, from, PAGE_MAX).await?.entries;
            let Some(first) = entries.first() else { break };
            let (first_seq, covers_hour) = (first.seq.0, first.at <= begin);
            entries.iter().filter(|entry| entry.at > begin).for_each(|entry| hour.add(view, entry));
            if covers_hour || first_seq <= 1 || (entries.len() as u64) < u64::from(PAGE_MAX) {
                break;
            }
            // The page before this one. Sequence numbers have no gaps except at the front.
            from = ReadFrom::After(Seq(first_seq.saturating_sub(u64::from(PAGE_MAX) + 1)));
        }
        Ok(hour)
    }

    fn add(&mut self, view: &View, entry: &Entry) {
        // An entry of another version is skipped, so that the rest is shown.
        let Ok(written) = serde_json::from_slice::<Written>(&entry.body) else { return };
        let ago = (view.now.since(entry.at).as_secs() / 60) as usize;
        let Some(minute) = (MINUTES - 1).checked_sub(ago).and_then(|at| self.minutes.get_mut(at)) else {
            return;
        };
        for (name, queue) in written.queues {
            minute.0 += queue.succeeded;
            minute.1 += queue.failed;
            self.queues.entry(name).or_default().add(&queue.wait_ms_log2);
        }
    }

    pub(super) fn queue(&self, name: &str) -> Option<&QueueHour> {
        self.queues.get(name)
    }

    pub(super) fn totals(&self) -> (u64, u64) {
        self.minutes.iter().fold((0, 0), |sum, minute| (sum.0 + minute.0, sum.1 + minute.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_bound_of_its_bucket() {
        let mut hour = QueueHour::default();
        assert_eq!(hour.wait_within(50), None);
        hour.add(&[50, 0, 49, 1]);
        assert_eq!(hour.wait_within(50), Some(Duration::from_millis(1)));
        assert_eq!(hour.wait_within(95), Some(Duration::from_millis(4)));
        assert_eq!(hour.wait_within(100), Some(Duration::from_millis(8)));
    }
}
