//! Without a leader no task is assigned. Every worker's maintenance watches for one; after a minute without, it takes
//! back what is not started, releases orphans, and lets its worker pull from assign queues. So assigned tasks
//! are not stranded (G3), whichever processes are left.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weaver_core::cluster::{
    AssignFallback, ClusterSettings, LeaderWatch, Workers, look, orphan_cause, worker_of,
};
use weaver_core::error::Result;
use weaver_core::id::{TaskKey, Version};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::Namespace;
use weaver_core::ports::Store;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::Monotonic;

/// Assigned and orphaned tasks per round, those first that have been so longest.
const HELD_MAX: u32 = 500;
/// Rounds of maintenance between two looks: two reads each, on every worker.
const ROUNDS_PER_LOOK: u32 = 5;

/// What the worker's maintenance knows about leaders.
#[derive(Default)]
pub(super) struct Leaderless {
    settings: ClusterSettings,
    /// Taken out during a round, so that it is not locked across an `.await`.
    observer: Mutex<Option<Observer>>,
    may_pull: AtomicBool,
}

/// What was seen, and when.
struct Observer {
    watch: LeaderWatch,
    workers: Workers,
    seen: HashMap<TaskKey, (Version, Monotonic)>,
    rounds: u32,
}

impl Leaderless {
    /// Whether workers may pull from assign queues now.
    pub(super) fn may_pull(&self) -> bool {
        self.may_pull.load(Ordering::Relaxed)
    }

    /// A round of maintenance.
    pub(super) async fn round(&self, store: &dyn Store, now: Monotonic) -> Result<()> {
        let mut observer = self.observer.lock().take().unwrap_or_else(|| Observer::new(now));
        let done = observer.round(store, &self.settings, now).await;
        if let Ok(Some(is_leaderless)) = done {
            let may_pull = is_leaderless && self.settings.assign_fallback == AssignFallback::Pull;
            if self.may_pull.swap(may_pull, Ordering::Relaxed) != may_pull && may_pull {
                tracing::warn!("no node has led for a minute: workers pull from assign queues");
            }
        }
        *self.observer.lock() = Some(observer);
        done.map(drop)
    }
}

impl Observer {
    fn new(now: Monotonic) -> Self {
        let (workers, seen) = (Workers::default(), HashMap::new());
        Self { watch: LeaderWatch::new(now), workers, seen, rounds: 0 }
    }

    /// Whether there has been no leader for long; `None`: it did not look in this round.
    async fn round(
        &mut self,
        store: &dyn Store,
        settings: &ClusterSettings,
        now: Monotonic,
    ) -> Result<Option<bool>> {
        let is_due = self.rounds.is_multiple_of(ROUNDS_PER_LOOK);
        self.rounds = self.rounds.wrapping_add(1);
        if !is_due {
            return Ok(None);
        }
        let seen = look(store).await?;
        self.watch.observe(seen, now);
        if self.watch.leaderless(settings, now).is_none() {
            self.seen.clear();
            return Ok(Some(false));
        }
        let held = store.assignments(HELD_MAX).await?;
        self.look_at(store, &held, now).await?;
        let mut by_namespace: BTreeMap<&Namespace, Vec<Transition>> = BTreeMap::new();
        for record in &held {
            let transition = self.command(record, settings, now).and_then(|command| {
                // None of these depends on the time.
                decide(record, command, record.updated_at).ok()
            });
            by_namespace.entry(&record.key.namespace).or_default().extend(transition);
        }
        for (namespace, transitions) in by_namespace.into_iter().filter(|(_, some)| !some.is_empty()) {
            // One namespace's failure does not stop the others; the next round tries again.
            if let Err(error) = store.commit(transitions, None).await {
                tracing::warn!(%namespace, %error, "releasing assigned tasks failed");
            }
        }
        Ok(Some(true))
    }

    async fn look_at(&mut self, store: &dyn Store, held: &[TaskRecord], now: Monotonic) -> Result<()> {
        let before = std::mem::take(&mut self.seen);
        let mut namespaces: Vec<&Namespace> = Vec::new();
        for record in held {
            let known = before.get(&record.key).filter(|(version, _)| *version == record.version);
            self.seen.insert(record.key.clone(), known.copied().unwrap_or((record.version, now)));
            namespaces.push(&record.key.namespace);
        }
        namespaces.sort();
        namespaces.dedup();
        let mut listed = Vec::new();
        for namespace in namespaces {
            let mut cursor = None;
            loop {
                let page = store.list_runners(namespace, cursor, PAGE_MAX).await?;
                listed.extend(page.items);
                match page.next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
        }
        self.workers.listed(listed, &[], now);
        Ok(())
    }

    fn command(&self, record: &TaskRecord, settings: &ClusterSettings, now: Monotonic) -> Option<Command> {
        if record.state == TaskState::Orphaned {
            let is_spent = record.losses > record.spec.max_losses;
            return Some(if is_spent { Command::AbandonOrphan } else { Command::ReleaseOrphan });
        }
        let worker = worker_of(record)?;
        let since = self.seen.get(&record.key).map_or(now, |(_, since)| *since);
        orphan_cause(self.workers.fitness(&worker, now), now.since(since), settings).map(Command::Orphan)
    }
}
