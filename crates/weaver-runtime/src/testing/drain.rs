//! Runs every task to its end, on virtual time.

use std::collections::{BTreeSet, HashSet};

use weaver_core::clock::Clock;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::TaskKey;
use weaver_core::lease::{Leased, Renewal, Renewed};
use weaver_core::outcome::Outcome;
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use super::{STORE, TestQueue};
use crate::ctx::Ctx;
use crate::execute::execute;
use crate::registry::Registry;
use crate::source::{End, Ended, LocalSource, Maintained, SharedLeased, WorkSource};
use crate::worker::appends;

/// More than any test needs, and few enough for an endless one to stop.
const EXECUTIONS_MAX: u32 = 100_000;
/// Changes per call.
const CHANGES_MAX: u32 = 1000;
pub(super) async fn drain(queue: &TestQueue, registry: &Registry) -> Vec<TaskRecord> {
    let source = queue.source();
    let watch = Watch::begin(queue).await;
    let mut drain = Drain { queue, registry, source, watch, executions: 0 };
    loop {
        let maintained = drain.source.maintain(queue.clock.monotonic()).await.expect(STORE);
        let ran = drain.run_due().await;
        drain.watch.observe().await;
        // Either may have made another task due.
        if ran || maintained != Maintained::default() {
            continue;
        }
        let now = queue.clock.now();
        match drain.watch.next_moment(now).await {
            Some(instant) => queue.clock.advance(instant.since(now)),
            None => return drain.watch.ended,
        }
    }
}

struct Drain<'a> {
    queue: &'a TestQueue,
    registry: &'a Registry,
    source: LocalSource,
    watch: Watch<'a>,
    executions: u32,
}

impl Drain<'_> {
    /// Runs due tasks, and those that become due by them; returns whether there was any.
    async fn run_due(&mut self) -> bool {
        let before = self.executions;
        for namespace in self.source.namespaces().await.expect(STORE) {
            loop {
                // Listed every time: a handler may enqueue into a new queue.
                let queues = self.queue.store.list_queues(&namespace).await.expect(STORE);
                let names: Vec<_> = queues.into_iter().map(|queue| queue.name).collect();
                if names.is_empty() {
                    break;
                }
                let Some(leased) = self.queue.lease(namespace.clone(), names).await else { break };
                self.run(leased).await;
            }
        }
        self.executions > before
    }

    async fn run(&mut self, leased: Leased) {
        let (key, task_type) = (&leased.lease.key, &leased.record.spec.envelope.task_type);
        assert!(
            self.executions < EXECUTIONS_MAX,
            "drain stopped after {EXECUTIONS_MAX} executions, at task {key} of type `{task_type}`: \
             does a handler enqueue, retry or snooze without end?"
        );
        self.executions += 1;
        let ctx = self.queue.context(leased, self.registry);
        let outcome = execute(self.registry, &ctx).await;
        self.flush(&ctx).await;
        self.finish(End { leased: SharedLeased(ctx), outcome }).await;
        self.watch.observe().await;
    }

    /// Stores the handler's log and progress.
    async fn flush(&self, ctx: &Ctx) {
        for lines in appends(&ctx.take_log(true)) {
            self.source.append(&ctx.log_stream(), lines, Some(&ctx.leased().lease), None).await.expect(STORE);
        }
        if let Some(progress) = ctx.take_progress() {
            let renewal = Renewal { progress: Some(progress), ..Renewal::of(ctx.leased().lease.clone()) };
            // Whether the lease is still valid is seen when the outcome is reported.
            let _: Vec<Renewed> = self.source.renew(vec![renewal]).await.expect(STORE);
        }
    }

    async fn finish(&self, mut end: End) {
        loop {
            match self.source.finish(std::slice::from_ref(&end)).await.expect(STORE)[..] {
                [Ended::ResultTooLarge { bytes, max_bytes }] => {
                    let error = format!(
                        "the result has {bytes} bytes, the limit is {max_bytes}: return a reference to it"
                    );
                    end.outcome = Outcome::fatal(error);
                }
                // Cancelled while it ran: the handler has stopped now.
                [Ended::Lost] => {
                    return self.source.confirm_stopped(vec![end.leased.lease.clone()]).await.expect(STORE);
                }
                _ => return,
            }
        }
    }
}

/// Follows the store's changes: which tasks have ended, and when the next one is due. Listing every task at
/// every step would do as well, for a few hundred tasks.
struct Watch<'a> {
    queue: &'a TestQueue,
    place: ChangeCursor,
    known_ended: HashSet<TaskKey>,
    ended: Vec<TaskRecord>,
    /// When a task may need something. May be stale: checked again when its time comes.
    moments: BTreeSet<(Timestamp, TaskKey)>,
}

impl<'a> Watch<'a> {
    async fn begin(queue: &'a TestQueue) -> Self {
        let (Changes::Next { next: place, .. } | Changes::Resync { next: place }) =
            queue.store.changes(None, CHANGES_MAX).await.expect(STORE);
        let (known_ended, moments) = (HashSet::new(), BTreeSet::new());
        let mut watch = Self { queue, place, known_ended, ended: Vec::new(), moments };
        watch.observe_all().await;
        // Tasks that had ended before are not returned.
        watch.ended.clear();
        watch
    }

    async fn observe(&mut self) {
        loop {
            let changes = self.queue.store.changes(Some(self.place), CHANGES_MAX).await.expect(STORE);
            match changes {
                Changes::Next { items, .. } if items.is_empty() => return,
                Changes::Next { items, next } => {
                    self.place = next;
                    let keys: Vec<_> = items.iter().map(|change| change.key.clone()).collect();
                    let records = self.queue.store.get_tasks(&keys).await.expect(STORE);
                    for (change, record) in items.iter().zip(records) {
                        // The record may be ahead of the change: an end counts when the stream reaches it.
                        record
                            .into_iter()
                            .for_each(|record| self.observe_record(record, change.state.is_terminal()));
                    }
                }
                Changes::Resync { next } => {
                    self.place = next;
                    self.observe_all().await;
                }
            }
        }
    }

    async fn observe_all(&mut self) {
        for record in self.queue.enqueued().await {
            let has_ended = record.state.is_terminal();
            self.observe_record(record, has_ended);
        }
    }

    fn observe_record(&mut self, record: TaskRecord, has_ended: bool) {
        self.moments.extend(moments(&record).map(|instant| (instant, record.key.clone())));
        if has_ended && self.known_ended.insert(record.key.clone()) {
            self.ended.push(record);
        }
    }

    /// The next instant at which a task is due, if any.
    async fn next_moment(&mut self, now: Timestamp) -> Option<Timestamp> {
        while let Some((instant, key)) = self.moments.pop_first() {
            let record = self.queue.store.get_tasks(std::slice::from_ref(&key)).await.expect(STORE).pop();
            let Some(record) = record.flatten().filter(|_| instant > now) else { continue };
            if moments(&record).any(|moment| moment == instant) {
                return Some(instant);
            }
            // Its lease was renewed since, which is no transition: check again at its expiry.
            self.moments.extend(moments(&record).map(|instant| (instant, key.clone())));
        }
        None
    }
}

/// When a task is due, when its lease or cancellation hold ends, and when it expires.
fn moments(record: &TaskRecord) -> impl Iterator<Item = Timestamp> {
    let starts = record.next_run_at();
    let lease_ends = record.lease.as_ref().map(|held| held.expires_at);
    let not_begun = record.executions == 0 && !record.state.is_terminal();
    let expires = record.spec.expires_at.filter(|_| not_begun);
    [starts, lease_ends, expires].into_iter().flatten()
}
