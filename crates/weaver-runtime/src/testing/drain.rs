//! Everything to its end, on virtual time.

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

/// More than any test needs, and few enough to see an endless one end.
const EXECUTIONS_MAX: u32 = 100_000;
/// How many changes are read with one call.
const CHANGES_MAX: u32 = 1000;
pub(super) async fn drain(queue: &TestQueue, registry: &Registry) -> Vec<TaskRecord> {
    let source = queue.source();
    let watch = Watch::begin(queue).await;
    let mut drain = Drain { queue, registry, source, watch, executions: 0 };
    loop {
        let maintained = drain.source.maintain().await.expect(STORE);
        let ran = drain.run_due().await;
        drain.watch.observe().await;
        // Either may have made something due.
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
    /// Runs what is due, and what that makes due; whether there was anything.
    async fn run_due(&mut self) -> bool {
        let before = self.executions;
        for namespace in self.source.namespaces().await.expect(STORE) {
            loop {
                // Asked every time: a handler may enqueue into a queue that was not there before.
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
            "drain has run {EXECUTIONS_MAX} executions and there is still more, now task {key} of type `{task_type}`: \
             does a handler enqueue, retry or snooze for ever?"
        );
        self.executions += 1;
        let ctx = self.queue.context(leased, self.registry);
        let outcome = execute(self.registry, &ctx).await;
        self.say(&ctx).await;
        self.finish(End { leased: SharedLeased(ctx), outcome }).await;
        self.watch.observe().await;
    }

    /// Passes on what the handler said besides its outcome.
    async fn say(&self, ctx: &Ctx) {
        for lines in appends(&ctx.take_log(true)) {
            self.source.append(&ctx.log_stream(), lines, Some(&ctx.leased().lease), None).await.expect(STORE);
        }
        if let Some(progress) = ctx.take_progress() {
            let renewal = Renewal { progress: Some(progress), ..Renewal::of(ctx.leased().lease.clone()) };
            // Whether the lease still stands is seen when the end is reported.
            let _: Vec<Renewed> = self.source.renew(vec![renewal]).await.expect(STORE);
        }
    }

    async fn finish(&self, mut end: End) {
        loop {
            match self.source.finish(std::slice::from_ref(&end)).await.expect(STORE)[..] {
                [Ended::ResultTooLarge { bytes, max_bytes }] => {
                    let error = format!(
                        "its result is {bytes} bytes: the limit is {max_bytes}; return a reference to it"
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

/// Follows the store's changes: what has ended, and when something will be to be done. Listing every task at
/// every step would do as well, for a few hundred tasks.
struct Watch<'a> {
    queue: &'a TestQueue,
    place: ChangeCursor,
    known_ended: HashSet<TaskKey>,
    ended: Vec<TaskRecord>,
    /// When something may be to be done, and about which task. May be out of date; looked at again when its
    /// turn comes.
    moments: BTreeSet<(Timestamp, TaskKey)>,
}

impl<'a> Watch<'a> {
    async fn begin(queue: &'a TestQueue) -> Self {
        let (Changes::Next { next: place, .. } | Changes::Resync { next: place }) =
            queue.store.changes(None, CHANGES_MAX).await.expect(STORE);
        let (known_ended, moments) = (HashSet::new(), BTreeSet::new());
        let mut watch = Self { queue, place, known_ended, ended: Vec::new(), moments };
        watch.look_at_all().await;
        // What had ended before is not news.
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
                        // The record may be ahead of the change: an end counts when the stream comes to it.
                        record
                            .into_iter()
                            .for_each(|record| self.look_at(record, change.state.is_terminal()));
                    }
                }
                Changes::Resync { next } => {
                    self.place = next;
                    self.look_at_all().await;
                }
            }
        }
    }

    async fn look_at_all(&mut self) {
        for record in self.queue.enqueued().await {
            let has_ended = record.state.is_terminal();
            self.look_at(record, has_ended);
        }
    }

    fn look_at(&mut self, record: TaskRecord, has_ended: bool) {
        self.moments.extend(moments(&record).map(|instant| (instant, record.key.clone())));
        if has_ended && self.known_ended.insert(record.key.clone()) {
            self.ended.push(record);
        }
    }

    /// When there is next something to be done, if ever.
    async fn next_moment(&mut self, now: Timestamp) -> Option<Timestamp> {
        while let Some((instant, key)) = self.moments.pop_first() {
            let record = self.queue.store.get_tasks(std::slice::from_ref(&key)).await.expect(STORE).pop();
            let Some(record) = record.flatten().filter(|_| instant > now) else { continue };
            if moments(&record).any(|moment| moment == instant) {
                return Some(instant);
            }
            // Its lease was renewed since, which is no change: look again when that ends.
            self.moments.extend(moments(&record).map(|instant| (instant, key.clone())));
        }
        None
    }
}

/// When something is to be done about a task: it starts, its lease or hold ends, it expires.
fn moments(record: &TaskRecord) -> impl Iterator<Item = Timestamp> {
    let starts = record.next_run_at();
    let lease_ends = record.lease.as_ref().map(|held| held.expires_at);
    let not_begun = record.executions == 0 && !record.state.is_terminal();
    let expires = record.spec.expires_at.filter(|_| not_begun);
    [starts, lease_ends, expires].into_iter().flatten()
}
