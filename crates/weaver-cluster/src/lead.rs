//! A leader's turn: takes assignments back that were not started, then assigns what is due.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use weaver_core::clock::Clock;
use weaver_core::cluster::{ClusterSettings, Workers, orphan_cause, place, requests, taken_from, worker_of};
use weaver_core::error::{Error, Result};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::ports::{AssignableRequest, RunnerKey, RunnerRecord, Store};
use weaver_core::queue::Committed;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::Monotonic;

use crate::term::Term;

/// The most assigned and orphaned tasks that one turn looks at, those first that have been so longest.
const ASSIGNMENTS_MAX: u32 = 10_000;
/// Turns between two looks at the list of namespaces.
const TURNS_PER_NAMESPACES: u32 = 10;

/// A leader. Made anew for each term: what an earlier one saw may be out of date.
pub(crate) struct Leader {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: ClusterSettings,
    /// Workers of this process: they are given a task only if no other worker serves it.
    own: BTreeSet<WorkerId>,
    workers: Workers,
    namespaces: Vec<Namespace>,
    turns: u32,
    /// Since when each assignment was seen, by its version.
    seen: HashMap<TaskKey, (Version, Monotonic)>,
}

/// What a turn found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Turn {
    pub(crate) assigned: u32,
    pub(crate) orphaned: u32,
    /// What the leader would assign next; empty if there is no room, or more to assign at once.
    pub(crate) waits_for: Vec<AssignableRequest>,
}

impl Leader {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: ClusterSettings,
        own: BTreeSet<WorkerId>,
    ) -> Self {
        let workers = Workers::default();
        Self { store, clock, settings, own, workers, namespaces: Vec::new(), turns: 0, seen: HashMap::new() }
    }

    /// One turn. Fails with [`Error::Deposed`] if another node was elected.
    pub(crate) async fn turn(&mut self, term: &Term) -> Result<Turn> {
        self.look().await?;
        let held = self.store.assignments(ASSIGNMENTS_MAX).await?;
        let now = self.clock.monotonic();
        self.note(&held, now);
        self.workers.assigned(&held);
        let mut turn = Turn::default();
        let (orphaned, abandoned) = self.take_back(term, &held, now).await?;
        turn.orphaned = orphaned;
        let orphans: Vec<TaskRecord> =
            held.into_iter().filter(|record| record.state == TaskState::Orphaned).collect();
        let orphans = orphans.into_iter().filter(|record| !abandoned.contains(&record.key)).collect();
        self.assign(term, orphans, &mut turn).await?;
        Ok(turn)
    }

    /// Lists the workers of all namespaces. A namespace that cannot be read keeps its last picture.
    async fn look(&mut self) -> Result<()> {
        if self.turns.is_multiple_of(TURNS_PER_NAMESPACES) || self.namespaces.is_empty() {
            self.namespaces = self.list_namespaces().await?;
        }
        self.turns = self.turns.wrapping_add(1);
        let (mut listed, mut unread) = (Vec::new(), Vec::new());
        for namespace in &self.namespaces {
            match self.list_workers(namespace).await {
                Ok(workers) => listed.extend(workers),
                Err(error) => {
                    tracing::warn!(%namespace, %error, "listing workers failed; retried next turn");
                    unread.push(namespace.clone());
                }
            }
        }
        self.workers.listed(listed, &unread, self.clock.monotonic());
        Ok(())
    }

    async fn list_workers(&self, namespace: &Namespace) -> Result<Vec<RunnerRecord>> {
        let (mut workers, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.store.list_runners(namespace, cursor, PAGE_MAX).await?;
            workers.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(workers),
            }
        }
    }

    async fn list_namespaces(&self) -> Result<Vec<Namespace>> {
        let (mut names, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.store.list_namespaces(cursor, PAGE_MAX).await?;
            names.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(names),
            }
        }
    }

    fn note(&mut self, held: &[TaskRecord], now: Monotonic) {
        let before = std::mem::take(&mut self.seen);
        for record in held {
            let known = before.get(&record.key).filter(|(version, _)| *version == record.version);
            self.seen.insert(record.key.clone(), known.copied().unwrap_or((record.version, now)));
        }
    }

    /// Orphans what its worker does not start, and abandons orphans whose budget is spent. Returns how many
    /// were orphaned, and which orphans are not to be assigned again.
    async fn take_back(
        &mut self,
        term: &Term,
        held: &[TaskRecord],
        now: Monotonic,
    ) -> Result<(u32, HashSet<TaskKey>)> {
        let (mut transitions, mut abandoned) = (Vec::new(), HashSet::new());
        let mut workers: HashMap<TaskKey, RunnerKey> = HashMap::new();
        for record in held {
            let command = match record.state {
                TaskState::Orphaned if record.losses > record.spec.max_losses => {
                    abandoned.insert(record.key.clone());
                    Command::AbandonOrphan
                }
                TaskState::Assigned => {
                    let Some(worker) = worker_of(record) else { continue };
                    let since = self.seen.get(&record.key).map_or(now, |(_, since)| *since);
                    let fitness = self.workers.fitness(&worker, now);
                    let Some(cause) = orphan_cause(fitness, now.since(since), &self.settings) else {
                        continue;
                    };
                    let from = &worker.runner_id;
                    tracing::info!(task = %record.key, worker = %from, %cause, "assignment taken back");
                    workers.insert(record.key.clone(), worker);
                    Command::Orphan(cause)
                }
                _ => continue,
            };
            // Neither depends on the time.
            transitions.extend(decide(record, command, record.updated_at).ok());
        }
        let mut orphaned = 0;
        for (key, committed) in self.commit(term, transitions).await? {
            if let (Committed::Applied { .. }, Some(worker)) = (committed, workers.get(&key)) {
                self.workers.taken(worker, key.id);
                orphaned += 1;
            }
        }
        Ok((orphaned, abandoned))
    }

    /// Assigns orphans, and the due tasks for which workers have room.
    async fn assign(&mut self, term: &Term, orphans: Vec<TaskRecord>, turn: &mut Turn) -> Result<()> {
        let times = (self.clock.monotonic(), self.clock.now());
        let mut rooms = self.workers.rooms(&self.settings, &self.own, times);
        let wanted = requests(&rooms);
        let mut tasks: Vec<TaskRecord> = orphans;
        for request in wanted.chunks(self.store.limits().max_batch.max(1)) {
            let found = self.store.assignable(request.to_vec()).await?;
            tasks.extend(found.into_iter().flatten());
        }
        let mut met = HashSet::new();
        tasks.retain(|record| met.insert(record.key.clone()));
        tasks.sort_by_key(|record| (record.spec.priority, record.ready_at, record.key.id));
        let places = place(&mut rooms, tasks.iter().map(|record| (record, taken_from(record))));
        let found = tasks.len();
        let mut chosen: HashMap<TaskKey, WorkerId> = HashMap::new();
        let mut transitions = Vec::new();
        for (record, worker) in tasks.iter().zip(places) {
            let Some(worker) = worker else { continue };
            // It is due by the store's clock, which may be ahead of this one.
            let now = self.clock.now().max(record.ready_at);
            let command = Command::Assign { worker: worker.clone(), epoch: term.condition().term() };
            if let Ok(transition) = decide(record, command, now) {
                chosen.insert(record.key.clone(), worker);
                transitions.push(transition);
            }
        }
        for (key, committed) in self.commit(term, transitions).await? {
            if let (Committed::Applied { .. }, Some(worker)) = (committed, chosen.remove(&key)) {
                let worker = RunnerKey { namespace: key.namespace.clone(), runner_id: worker };
                self.workers.given(&worker, key.id);
                turn.assigned += 1;
            }
        }
        if found == turn.assigned as usize {
            turn.waits_for = requests(&rooms);
        }
        Ok(())
    }

    /// Commits under the term's epoch, each namespace on its own: one that fails does not stop the others.
    async fn commit(&self, term: &Term, transitions: Vec<Transition>) -> Result<Vec<(TaskKey, Committed)>> {
        let mut by_namespace: BTreeMap<Namespace, Vec<Transition>> = BTreeMap::new();
        for transition in transitions {
            by_namespace.entry(transition.key.namespace.clone()).or_default().push(transition);
        }
        let mut answers = Vec::new();
        for (namespace, transitions) in by_namespace {
            for batch in transitions.chunks(self.store.limits().max_batch.max(1)) {
                if !term.is_valid(self.clock.monotonic()) {
                    tracing::warn!(
                        epoch = term.epoch.0,
                        "the term could not be confirmed in time; not acting on it"
                    );
                    return Ok(answers);
                }
                let keys: Vec<TaskKey> = batch.iter().map(|transition| transition.key.clone()).collect();
                match self.store.commit(batch.to_vec(), Some(term.condition())).await {
                    Ok(committed) => answers.extend(keys.into_iter().zip(committed)),
                    Err(error @ Error::Deposed { .. }) => return Err(error),
                    Err(error) => {
                        tracing::warn!(%namespace, %error, "writing assignments failed; retried next turn");
                    }
                }
            }
        }
        Ok(answers)
    }
}
