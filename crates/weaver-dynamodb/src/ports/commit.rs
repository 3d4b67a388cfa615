//! Commits transitions by optimistic concurrency: the whole item is replaced, on condition that it is still
//! what the transition was decided on.
//!
//! A serial key, a queue with a limit or a leader's epoch (fencing) is checked in the same transaction.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::stream::{self, StreamExt};
use weaver_core::error::{Error, Result};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lifecycle::{HolderChange, Transition};
use weaver_core::queue::{Blocked, Committed, LeaderEpoch};
use weaver_core::task::{TaskRecord, TaskState};

use crate::codec::value::{Attributes, n};
use crate::codec::{foreign, record};
use crate::db::{Table, Transacted, Write, Written};
use crate::gate::{self, Gate};
use crate::keys;
use crate::ports::CONCURRENCY_MAX;
use crate::queues::{QueueState, add_slot, take_slot};
use crate::records::{if_unchanged, too_contended};
use crate::store::{DynamoStore, Stored};

/// Maximum number of attempts when renewals, keys or queues change concurrently.
const TRIES_MAX: u32 = 20;

/// The outcome of one attempt.
enum Try {
    Answer(Committed),
    /// A concurrent change: read again and retry.
    Again,
    Deposed,
}

impl DynamoStore {
    pub(super) async fn commit_all(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        if let Some(leader) = &leader {
            self.check_leader(leader).await?;
        }
        if transitions.is_empty() {
            return Ok(Vec::new());
        }
        self.announce().await?;
        let mut known = Vec::with_capacity(transitions.len());
        let missing: Vec<TaskKey> = transitions
            .iter()
            .map(|transition| transition.key.clone())
            .filter(|key| self.cached(key).is_none())
            .collect();
        let read = if missing.is_empty() { Default::default() } else { self.load(&missing).await? };
        for transition in &transitions {
            let stored = self.cached(&transition.key).or_else(|| read.get(&transition.key).cloned());
            known.push(stored);
        }
        let answers = if leader.is_none() && are_independent(&transitions, &known) {
            stream::iter(transitions.into_iter().zip(known))
                .map(|(transition, stored)| self.commit_one(transition, stored, None))
                .buffered(CONCURRENCY_MAX)
                .collect::<Vec<_>>()
                .await
        } else {
            // Sequential: one may release the key or slot that the next one takes.
            let mut answers = Vec::with_capacity(transitions.len());
            for (index, transition) in transitions.into_iter().enumerate() {
                let stored = if index == 0 { known[0].take() } else { self.current(&transition.key).await? };
                let answer = self.commit_one(transition, stored, leader.as_ref()).await;
                let failed = answer.is_err();
                answers.push(answer);
                if failed {
                    break;
                }
            }
            answers
        };
        self.flush_counts_if_due().await;
        answers.into_iter().collect()
    }

    async fn current(&self, key: &TaskKey) -> Result<Option<Stored>> {
        match self.cached(key) {
            Some(stored) => Ok(Some(stored)),
            None => self.load_one(key).await,
        }
    }

    /// Fails with `Deposed` unless the epoch is current; checked even if there is nothing to write.
    async fn check_leader(&self, leader: &LeaderEpoch) -> Result<()> {
        let found = self.db.get(Table::Data, vec![keys::document(&leader.document)]).await?;
        let current =
            found.first().filter(|item| !item.flag("deleted")).and_then(|item| item.number("version"));
        match current {
            Some(current) if current == leader.epoch.0 => Ok(()),
            other => Err(Error::Deposed { epoch: leader.epoch, current: Version(other.unwrap_or_default()) }),
        }
    }

    async fn commit_one(
        &self,
        transition: Transition,
        mut stored: Option<Stored>,
        leader: Option<&LeaderEpoch>,
    ) -> Result<Committed> {
        // A quarantined task is not changed, even if it is cached.
        if self.is_quarantined(&transition.key) {
            return Ok(Committed::Stale);
        }
        let mut is_fresh = false;
        for attempt in 0..TRIES_MAX {
            let Some(found) = &stored else {
                if is_fresh {
                    return Ok(Committed::Stale);
                }
                is_fresh = true;
                stored = self.load_one(&transition.key).await?;
                if stored.is_none() {
                    return Ok(Committed::Stale);
                }
                continue;
            };
            if !transition.fits(&found.record) && !is_fresh {
                // The cached record may be stale.
                is_fresh = true;
                stored = self.load_one(&transition.key).await?;
                continue;
            }
            match self.try_commit(&transition, found, leader, attempt > 0).await? {
                Try::Answer(answer) => return Ok(answer),
                Try::Deposed => {
                    if let Some(leader) = leader {
                        self.check_leader(leader).await?;
                    }
                }
                Try::Again => {}
            }
            if attempt > 2 {
                crate::db::backoff(attempt.min(4)).await;
            }
            self.forget(&transition.key);
            is_fresh = true;
            stored = self.load_one(&transition.key).await?;
        }
        Err(too_contended(&transition.key))
    }

    /// After a failed attempt the gate is read first: the task may not hold its key, if a client that knows
    /// only seed 000 ran it.
    async fn try_commit(
        &self,
        transition: &Transition,
        stored: &Stored,
        leader: Option<&LeaderEpoch>,
        has_failed: bool,
    ) -> Result<Try> {
        let before = &stored.record;
        if !transition.fits(before) {
            let repeated = transition.is_already_applied(before);
            return Ok(Try::Answer(if repeated { Committed::AlreadyApplied } else { Committed::Stale }));
        }
        let now = self.now();
        let mut queue = None;
        let mut gate = None;
        if transition.admits() {
            if !before.is_startable(now.into()) {
                return Ok(Try::Answer(Committed::Blocked(Blocked::NotDue)));
            }
            let states =
                self.queue_states(&before.key.namespace, std::slice::from_ref(&before.spec.queue)).await?;
            let state = states.get(&before.spec.queue).copied().unwrap_or_default();
            if let Some(why) = state.blocked() {
                return Ok(Try::Answer(Committed::Blocked(why)));
            }
            queue = Some(state);
            if let Some(key) = before.spec.serial_key.as_ref().filter(|_| !before.holds_key()) {
                let found = self.gate(&before.key.namespace, key, now).await?;
                if !found.admits(before.key.id) {
                    return Ok(Try::Answer(Committed::Blocked(Blocked::KeyHeld)));
                }
                gate = Some(found);
            }
        } else if has_failed && let Some(key) = &before.spec.serial_key {
            gate = Some(self.gate(&before.key.namespace, key, now).await?);
        }
        let mut after = before.clone();
        transition.clone().apply(&mut after, now);
        if let HolderChange::Lease { worker, token, .. } = &transition.holder {
            self.plan_one(*token, worker, &before.key, before.version).await?;
        }
        let after = Stored { item: self.prepare(&after, Some(stored)).await?, record: after };
        let passage = gate::writes(stored, &after.record, gate);
        self.write_move(stored, after, queue, passage, leader).await
    }

    /// Writes a transition, with the gate (`beside`), slot and leader check in the same transaction.
    async fn write_move(
        &self,
        before: &Stored,
        mut after: Stored,
        queue: Option<QueueState>,
        mut beside: Vec<Write>,
        leader: Option<&LeaderEpoch>,
    ) -> Result<Try> {
        beside.extend(slot_writes(before, &mut after, queue));
        beside.extend(unstarted_write(&after.record));
        let leader_at = leader.map(|leader| {
            beside.push(leader_check(leader));
            beside.len()
        });
        let task = if_unchanged(Write::put(Table::Queue, after.item.clone()), &before.item);
        let tried = if beside.is_empty() {
            match self.db.write(task).await? {
                Written::Applied(_) => None,
                Written::ConditionFailed | Written::Conflict => Some(Try::Again),
            }
        } else {
            let mut writes = vec![task];
            writes.extend(beside);
            match self.db.transact(writes).await? {
                Transacted::Applied => None,
                Transacted::ConditionFailed(members) if leader_at.is_some_and(|at| members.contains(&at)) => {
                    Some(Try::Deposed)
                }
                Transacted::ConditionFailed(_) | Transacted::Conflict => Some(Try::Again),
            }
        };
        if let Some(tried) = tried {
            return Ok(tried);
        }
        let version = after.record.version;
        self.moved(counted_before(before).as_ref(), &after);
        self.left_lease(&before.record, &after.record).await;
        if is_unstarted(&before.record) && !is_unstarted(&after.record) {
            // A later assignment has a newer entry, which stays.
            let entry = Write::delete(Table::Data, keys::unstarted(&after.record.key));
            let entry = entry.when("version = :seen").value(":seen", n(before.record.version.0));
            self.write_best_effort(entry).await;
        }
        if before.record.is_unstarted() && (!after.record.is_unstarted() || after.record.state.is_terminal())
        {
            self.started(&after).await;
        }
        Ok(Try::Answer(Committed::Applied { version }))
    }

    /// Stores our record of another client's change: a changed status, or a new task that is adopted.
    pub(crate) async fn reconcile(&self, stored: Stored) -> Result<bool> {
        let after = Stored {
            item: self.prepare(&stored.record, Some(&stored)).await?,
            record: stored.record.clone(),
        };
        let counted =
            foreign::is_adopted(&stored.item).then(|| record::decode(&stored.item, &Default::default()));
        let before = match counted.transpose()? {
            Some(record) => Stored { record, ..stored },
            None => stored,
        };
        if self.try_reconcile(&before, after.clone(), None).await? {
            return Ok(true);
        }
        // As in a commit: it may not hold its key.
        let Some(key) = &before.record.spec.serial_key else { return Ok(false) };
        let gate = self.gate(&before.record.key.namespace, key, self.now()).await?;
        self.try_reconcile(&before, after, Some(gate)).await
    }

    async fn try_reconcile(&self, before: &Stored, after: Stored, gate: Option<Gate>) -> Result<bool> {
        let passage = gate::writes(before, &after.record, gate);
        Ok(matches!(self.write_move(before, after, None, passage, None).await?, Try::Answer(_)))
    }

    /// Ends the cancellation holds of handlers that have stopped.
    pub(super) async fn confirm_all(&self, leases: Vec<weaver_core::lease::Lease>) -> Result<()> {
        for lease in leases {
            for attempt in 0..TRIES_MAX {
                let Some(before) = self.load_one(&lease.key).await? else { break };
                let mut record = before.record.clone();
                if !weaver_core::lifecycle::confirm_stopped(&mut record, &lease) {
                    break;
                }
                let mut after = Stored { item: self.prepare(&record, Some(&before)).await?, record };
                let mut writes = gate::writes(&before, &after.record, None);
                writes.extend(slot_writes(&before, &mut after, None));
                writes.insert(0, if_unchanged(Write::put(Table::Queue, after.item.clone()), &before.item));
                let done = match writes.len() {
                    1 => matches!(self.db.write(writes.remove(0)).await?, Written::Applied(_)),
                    _ => self.db.transact(writes).await? == Transacted::Applied,
                };
                if done {
                    self.stopped(&before, &after).await;
                    break;
                }
                crate::db::backoff(attempt.min(4)).await;
            }
        }
        self.flush_counts_if_due().await;
        Ok(())
    }

    /// After a hold has ended: the version did not change, so nothing is published.
    async fn stopped(&self, before: &Stored, after: &Stored) {
        self.deltas.lock().moved(Some(&before.record), &after.record);
        self.observed(&after.record, self.clock.monotonic());
        self.remember(after);
        self.left_lease(&before.record, &after.record).await;
        self.changed.notify_waiters();
    }
}

/// The record as it was counted; `None` for an item that has not been adopted, which is not counted.
fn counted_before(stored: &Stored) -> Option<TaskRecord> {
    if !foreign::is_adopted(&stored.item) {
        return None;
    }
    if foreign::is_moved(&stored.item) {
        return record::decode(&stored.item, &Default::default()).ok();
    }
    Some(stored.record.clone())
}

/// Whether the transitions are independent: different tasks, no serial keys, no limited queues.
fn are_independent(transitions: &[Transition], known: &[Option<Stored>]) -> bool {
    let distinct: HashSet<&TaskKey> = transitions.iter().map(|transition| &transition.key).collect();
    let plain = |(transition, stored): (&Transition, &Option<Stored>)| {
        !transition.admits()
            && stored
                .as_ref()
                .is_none_or(|stored| stored.record.spec.serial_key.is_none() && !stored.item.flag("counted"))
    };
    distinct.len() == transitions.len() && transitions.iter().zip(known).all(plain)
}

/// Whether a task is assigned and not started, or orphaned: then it has an entry in [`keys::UNSTARTED`].
fn is_unstarted(record: &TaskRecord) -> bool {
    matches!(record.state, TaskState::Assigned | TaskState::Orphaned)
}

/// The entry of a task that is assigned or orphaned now. An entry that is left behind is removed by its next
/// reader.
fn unstarted_write(after: &TaskRecord) -> Option<Write> {
    is_unstarted(after).then(|| {
        let mut entry = keys::unstarted(&after.key);
        entry.put_number("version", after.version.0);
        if let Some(worker) = after.holder() {
            entry.put_text("worker", worker.as_str());
        }
        Write::put(Table::Data, entry)
    })
}

/// The queue's write for a transition: only if the queue has a limit, or had one when the task was counted.
fn slot_writes(before: &Stored, after: &mut Stored, queue: Option<QueueState>) -> Option<Write> {
    match (before.record.occupies_slot(), after.record.occupies_slot()) {
        (false, true) if queue.is_some_and(|queue| queue.settings.max_running.is_some()) => {
            after.item.insert("counted".to_owned(), AttributeValue::Bool(true));
            Some(take_slot(&after.record.key.namespace, &after.record.spec.queue))
        }
        (true, false) if before.item.flag("counted") => {
            after.item.remove("counted");
            Some(add_slot(&after.record, -1))
        }
        _ => None,
    }
}

fn leader_check(leader: &LeaderEpoch) -> Write {
    Write::check(Table::Data, keys::document(&leader.document))
        .when("version = :epoch AND attribute_not_exists(deleted)")
        .value(":epoch", n(leader.epoch.0))
}
