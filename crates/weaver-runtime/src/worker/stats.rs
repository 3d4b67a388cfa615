//! What a worker counts: its own summary, and statistics per minute and queue for charts and percentiles.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::outcome::Outcome;
use weaver_core::task::TaskState;
use weaver_core::time::Monotonic;

use crate::source::End;
use crate::worker::RunSummary;

/// Times fall into buckets of doubling width: under 1 ms, 2 ms, 4 ms, … up to about 12 days.
const BUCKETS: usize = 31;

pub(crate) struct Stats {
    summary: RunSummary,
    minute: Minutes,
    since: Monotonic,
}

/// One minute of every queue. A list: a worker serves few.
#[derive(Default)]
struct Minutes(Vec<(Namespace, QueueName, QueueMinute)>);

impl Minutes {
    fn minute(&mut self, namespace: &Namespace, queue: &QueueName) -> &mut QueueMinute {
        let found = self.0.iter().position(|(of, name, _)| of == namespace && name == queue);
        let position = found.unwrap_or_else(|| {
            self.0.push((namespace.clone(), queue.clone(), QueueMinute::default()));
            self.0.len() - 1
        });
        &mut self.0[position].2
    }
}

/// One minute of one queue.
#[derive(Debug, Clone, Default, Serialize)]
struct QueueMinute {
    succeeded: u32,
    failed: u32,
    snoozed: u32,
    released: u32,
    cancelled: u32,
    /// From due to start: how many fell into each bucket.
    wait_ms_log2: Histogram,
    /// From start to end.
    run_ms_log2: Histogram,
}

#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
struct Histogram(Vec<u32>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; BUCKETS])
    }
}

impl Histogram {
    fn add(&mut self, span: Duration) {
        let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - ms.leading_zeros()) as usize;
        self.0[bucket.min(BUCKETS - 1)] += 1;
    }
}

/// An entry of the stream `stats`.
#[derive(Serialize)]
struct Minute<'a> {
    worker: &'a str,
    span_ms: u64,
    queues: BTreeMap<&'a str, &'a QueueMinute>,
}

impl Stats {
    pub(crate) fn new(now: Monotonic) -> Self {
        Self { summary: RunSummary::default(), minute: Minutes::default(), since: now }
    }

    pub(crate) fn summary(&self) -> RunSummary {
        self.summary
    }

    pub(crate) fn lost(&mut self) {
        self.summary.lost += 1;
    }

    pub(crate) fn cancelled_running(&mut self) {
        self.summary.cancelled += 1;
    }

    pub(crate) fn ended(&mut self, end: &End, state: TaskState, ran_for: Duration) {
        let record = &end.leased.record;
        let minute = self.minute.minute(&record.key.namespace, &record.spec.queue);
        let (total, counted) = match end.outcome {
            Outcome::Committed if state == TaskState::Succeeded => {
                (&mut self.summary.succeeded, &mut minute.succeeded)
            }
            Outcome::Succeeded { .. } => (&mut self.summary.succeeded, &mut minute.succeeded),
            Outcome::Failed { .. } | Outcome::TimedOut | Outcome::Committed => {
                (&mut self.summary.failed, &mut minute.failed)
            }
            Outcome::Snoozed { .. } => (&mut self.summary.released, &mut minute.snoozed),
            Outcome::Released => (&mut self.summary.released, &mut minute.released),
            Outcome::Cancelled { .. } => (&mut self.summary.cancelled, &mut minute.cancelled),
        };
        *total += 1;
        *counted += 1;
        minute.wait_ms_log2.add(record.updated_at.since(record.ready_at));
        minute.run_ms_log2.add(ran_for);
    }

    /// What was counted since the last call, one entry per namespace.
    pub(crate) fn take_minute(&mut self, worker: &str, now: Monotonic) -> Vec<(Namespace, Bytes)> {
        let span = now.0.saturating_sub(self.since.0);
        self.since = now;
        let minute = std::mem::take(&mut self.minute);
        let mut namespaces: BTreeMap<&Namespace, BTreeMap<&str, &QueueMinute>> = BTreeMap::new();
        for (namespace, queue, counted) in &minute.0 {
            namespaces.entry(namespace).or_default().insert(queue.as_str(), counted);
        }
        let entries = namespaces.into_iter().filter_map(|(namespace, queues)| {
            let span_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            let json = serde_json::to_vec(&Minute { worker, span_ms, queues }).ok()?;
            Some((namespace.clone(), json.into()))
        });
        entries.collect()
    }
}
