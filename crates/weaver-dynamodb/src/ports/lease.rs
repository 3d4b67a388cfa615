//! Leasing: find, plan, claim. The index only suggests candidates; the conditional write decides.

use std::collections::HashSet;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::stream::{self, StreamExt};
use weaver_core::error::Result;
use weaver_core::id::{Epoch, TaskKey};
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::projection::queue_item::Status;
use weaver_core::task::{Cause, HeldLease, Priority, TaskRecord, TaskState};
use weaver_core::time::Timestamp;

use crate::codec::foreign;
use crate::codec::record::lease_values;
use crate::codec::value::{iso, n, s, us};
use crate::db::{Item, Table, Transacted, Write, Written};
use crate::gate::Gate;
use crate::keys;
use crate::leases::Plan;
use crate::overlay::Ready;
use crate::ports::CONCURRENCY_MAX;
use crate::ports::choose::Claim;
use crate::queues::take_slot;
use crate::store::{DynamoStore, Stored};
use crate::unreadable::FORMAT;

/// Maximum number of searches per call after lost races.
const ROUNDS_MAX: usize = 8;
/// Maximum number of attempts of a claim whose items are in a concurrent transaction.
const BUSY_MAX: u32 = 5;

impl DynamoStore {
    pub(super) async fn lease_tasks(&self, request: &LeaseRequest) -> Result<Vec<Leased>> {
        self.adopt_if_due(&request.namespace, &request.queues, request.types.as_deref()).await?;
        let mut leased: Vec<(String, Leased)> = Vec::new();
        let mut plan: Option<Plan> = None;
        let mut tried = HashSet::new();
        for _ in 0..ROUNDS_MAX {
            let missing = request.max as usize - leased.len();
            let fragile = leased.iter().filter(|(_, leased)| leased.record.is_fragile()).count();
            let slots = request.slots.saturating_sub(u32::try_from(fragile).unwrap_or(u32::MAX));
            let claims = self.choose(request, missing, slots, &tried).await?;
            if claims.is_empty() && plan.is_none() {
                // It may repeat a call whose tasks are all leased.
                return self.repeated(request).await.map(Option::unwrap_or_default);
            }
            if claims.is_empty() {
                break;
            }
            self.announce().await?;
            if !self.extend_plan(request, &mut plan, &claims).await? {
                if let Some(granted) = self.repeated(request).await?.filter(|granted| !granted.is_empty()) {
                    return Ok(granted);
                }
                if plan.is_some() {
                    break;
                }
                plan = self.plan(request.token).await?;
                if !self.extend_plan(request, &mut plan, &claims).await? {
                    break;
                }
            }
            let wanted = claims.len();
            tried.extend(claims.iter().map(|claim| claim.ready.key.clone()));
            let granted = self.claim_all(request, claims).await?;
            let lost = granted.len() < wanted;
            leased.extend(granted);
            if !lost || leased.len() == request.max as usize {
                break;
            }
        }
        if let Some(plan) = &plan {
            self.finish_plan(plan, &leased).await;
        }
        leased.sort_by(|one, other| one.0.cmp(&other.0));
        self.flush_counts_if_due().await;
        Ok(leased.into_iter().map(|(_, leased)| leased).collect())
    }

    /// Records the tasks leased under the token, or removes the plan if there are none.
    async fn finish_plan(&self, plan: &Plan, leased: &[(String, Leased)]) {
        if leased.is_empty() {
            self.drop_plan(plan.token, plan.revision).await;
        } else {
            let tasks = leased.iter().map(|(_, leased)| leased.lease.key.id);
            self.holds(plan.token, plan.revision, tasks);
        }
    }

    /// Adds claims to the plan; `false` if a concurrent or earlier call with the same token changed it.
    async fn extend_plan(
        &self,
        request: &LeaseRequest,
        plan: &mut Option<Plan>,
        claims: &[Claim],
    ) -> Result<bool> {
        let mut next = plan.clone().unwrap_or_else(|| Plan {
            token: request.token,
            worker: request.worker.clone(),
            namespace: request.namespace.clone(),
            revision: 0,
            tasks: Vec::new(),
        });
        next.check(&request.worker, &request.namespace)?;
        next.revision += 1;
        next.tasks.extend(claims.iter().map(|claim| (claim.ready.key.id, claim.ready.version)));
        let written = self.write_plan(&next).await?;
        if written {
            *plan = Some(next);
        }
        Ok(written)
    }

    /// Leases that an earlier call with this token was granted and still holds; `None` if there was no such
    /// call. The new revision keeps the earlier call from extending its plan; what it has planned and not yet
    /// claimed stays its own.
    async fn repeated(&self, request: &LeaseRequest) -> Result<Option<Vec<Leased>>> {
        let Some(mut plan) = self.plan(request.token).await? else { return Ok(None) };
        let under =
            |stored: &Stored| stored.record.lease.as_ref().is_some_and(|held| held.token == request.token);
        let mut stored: Vec<Stored> = self.load(&plan.keys()).await?.into_values().filter(under).collect();
        if stored.is_empty() {
            return Ok(Some(Vec::new()));
        }
        plan.check(&request.worker, &request.namespace)?;
        plan.revision += 1;
        if self.write_plan(&plan).await? {
            self.holds(plan.token, plan.revision, stored.iter().map(|stored| stored.record.key.id));
        }
        stored.sort_by(|one, other| one.record.key.cmp(&other.record.key));
        let leased = stored.into_iter().filter_map(|stored| {
            Some(Leased { lease: stored.record.current_lease()?, record: stored.record })
        });
        Ok(Some(leased.collect()))
    }

    /// Claims tasks that need only their own item concurrently, the others sequentially.
    async fn claim_all(&self, request: &LeaseRequest, claims: Vec<Claim>) -> Result<Vec<(String, Leased)>> {
        let (plain, joint): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| !claim.is_limited && !claim.takes_key());
        let mut answers: Vec<Result<Option<(String, Leased)>>> = stream::iter(plain)
            .map(|claim| async move { self.claim(request, &claim).await })
            .buffer_unordered(CONCURRENCY_MAX)
            .collect()
            .await;
        for claim in joint {
            answers.push(self.claim(request, &claim).await);
        }
        let answers: Result<Vec<_>> = answers.into_iter().collect();
        Ok(answers?.into_iter().flatten().collect())
    }

    async fn claim(&self, request: &LeaseRequest, claim: &Claim) -> Result<Option<(String, Leased)>> {
        let now = self.now();
        let task = claim.task_write(request, now);
        let ready = &claim.ready;
        let mut writes = vec![task];
        if let (Some(key), Some(gate), true) = (&ready.serial_key, &claim.gate, claim.takes_key()) {
            writes.extend(claim_gate(&ready.key, key, gate));
        }
        if claim.is_limited {
            writes.push(take_slot(&request.namespace, &claim.queue));
        }
        let item = match self.write_claim(ready, writes).await {
            Ok(item) => item,
            // An attribute may have the wrong type for the update: only this item is affected.
            Err(error) => {
                self.load_one(&ready.key).await?;
                return if self.is_quarantined(&ready.key) { Ok(None) } else { Err(error) };
            }
        };
        let taken = match item {
            Some(item) => match self.read(vec![item]).await?.pop() {
                Some(stored) => Some(stored),
                None => {
                    self.release_unreadable(request, claim, now).await?;
                    None
                }
            },
            None => self.after_lost_race(request, ready).await?,
        };
        let Some(stored) = taken else { return Ok(None) };
        let Some(lease) = stored.record.current_lease() else { return Ok(None) };
        // The record as it was counted before the claim.
        let before = TaskRecord { state: ready.state, lease: None, ..stored.record.clone() };
        self.moved(Some(&before), &stored);
        self.started(&stored).await;
        Ok(Some((ready.sort.clone(), Leased { lease, record: stored.record })))
    }

    /// Releases a claimed task that cannot be read, as [`Release`](weaver_core::lifecycle::Command) does: due
    /// at once, without counting a failure. It keeps its serial key. The attempt is not recorded, as the list
    /// of attempts cannot be read.
    async fn release_unreadable(&self, request: &LeaseRequest, claim: &Claim, now: Timestamp) -> Result<()> {
        let ready = &claim.ready;
        let released = Write::update(
            Table::Queue,
            keys::task(&ready.key.namespace, &ready.name),
            "SET version = version + :one, #state = :state, cause = :cause, updated_at = :iso, updated_at_us = :now, \
             ready_at_us = :now, ready_pk = :partition, ready_sk = :sort \
             REMOVE lease_token, lease_worker, lease_epoch, lease_started_at_us, lease_expires_at_us, lease_ttl_us, \
             lease_span_us, counted",
        )
        .when("lease_token = :token")
        .name("#state", "state")
        .value(":one", n(1))
        .value(":state", s(TaskState::RetryScheduled.as_str()))
        .value(":cause", s(serde_json::to_string(&Cause::Released).unwrap_or_default()))
        .value(":iso", s(iso(now)))
        .value(":now", us(now))
        .value(":partition", s(ready.partition.as_str()))
        .value(":sort", s(keys::ready_sort(Priority::new(ready.priority()).unwrap_or_default(), now, ready.key.id)))
        .value(":token", s(keys::token_text(request.token)));
        let mut writes = vec![released];
        if claim.is_limited {
            let queue = keys::data(&keys::queues(&request.namespace), claim.queue.as_str());
            writes.push(Write::update(Table::Data, queue, "ADD occupied :slot").value(":slot", n(-1)));
        }
        if self.write_claim(ready, writes).await?.is_some() {
            let place = (request.namespace.clone(), claim.queue.clone());
            self.deltas.lock().shift(place, ready.state, TaskState::RetryScheduled);
            // Updates its entry in the quarantine.
            self.load_one(&ready.key).await?;
        }
        Ok(())
    }

    /// Makes the writes of a claim; `None` if a condition failed. A conflict with a concurrent transaction is
    /// retried: skipping the task would lease a later one first.
    async fn write_claim(&self, ready: &Ready, writes: Vec<Write>) -> Result<Option<Item>> {
        for attempt in 0..BUSY_MAX {
            if attempt > 0 {
                crate::db::backoff(attempt).await;
            }
            if let [write] = writes.as_slice() {
                match self.db.write(write.clone()).await? {
                    Written::Applied(item) => return Ok(Some(item)),
                    Written::ConditionFailed => return Ok(None),
                    Written::Conflict => continue,
                }
            }
            match self.db.transact(writes.clone()).await? {
                Transacted::Applied => {
                    let key = keys::task(&ready.key.namespace, &ready.name);
                    return Ok(self.db.get(Table::Queue, vec![key]).await?.pop());
                }
                Transacted::ConditionFailed(_) => return Ok(None),
                Transacted::Conflict => {}
            }
        }
        Ok(None)
    }

    /// After a failed claim: returns the task if the claim was applied and its response lost.
    async fn after_lost_race(&self, request: &LeaseRequest, ready: &Ready) -> Result<Option<Stored>> {
        let Some(stored) = self.load_one(&ready.key).await? else {
            self.overlay.lock().taken_elsewhere(ready, self.clock.monotonic());
            return Ok(None);
        };
        let now = self.clock.monotonic();
        let record = &stored.record;
        let ours = record.version == ready.version.next()
            && record.lease.as_ref().is_some_and(|held| held.token == request.token);
        if ours {
            return Ok(Some(stored));
        }
        if foreign::is_moved(&stored.item) {
            self.reconcile(stored).await?;
            return Ok(None);
        }
        if record.version > ready.version {
            // Its current record, not just its absence: it may wait again, at the head.
            self.overlay.lock().note(record, now);
            *self.lost_race_at.lock() = Some(now);
        }
        Ok(None)
    }

    /// After the first start: removes the `expiring` entry, as the task cannot expire any more.
    pub(crate) async fn started(&self, stored: &Stored) {
        let record = &stored.record;
        if let Some(expires_at) = record.spec.expires_at
            && (record.executions == 1 || record.state.is_terminal())
        {
            self.write_best_effort(Write::delete(Table::Data, keys::expiring(expires_at, &record.key))).await;
        }
    }
}

impl Claim {
    /// Whether starting it takes its serial key: a task that has started before already holds it.
    fn takes_key(&self) -> bool {
        self.ready.serial_key.is_some() && self.gate.as_ref().is_none_or(|gate| gate.holder.is_none())
    }

    /// The same transition as `lifecycle::decide` makes for a lease; the model test checks that they agree.
    fn task_write(&self, request: &LeaseRequest, now: Timestamp) -> Write {
        let ready = &self.ready;
        let held = HeldLease {
            worker: request.worker.clone(),
            token: request.token,
            epoch: Epoch(0),
            started_at: now,
            expires_at: now.saturating_add(request.ttl),
            ttl: request.ttl,
        };
        let waiting = if ready.has_started { Status::Running } else { Status::Queued };
        let counted = if self.is_limited { ", counted = :true" } else { "" };
        let expression = format!(
            "SET version = :next, #status = :running, #state = :state, updated_at = :iso, updated_at_us = :now, \
             first_started_at_us = if_not_exists(first_started_at_us, :now), claimed_by = :worker, \
             executions = executions + :one, attempt = attempt + :one, lease_token = :token, lease_worker = :worker, \
             lease_epoch = :epoch, lease_started_at_us = :started, lease_expires_at_us = :expires, \
             lease_ttl_us = :ttl, lease_span_us = :span{counted} \
             REMOVE cause, #progress, ready_pk, ready_sk"
        );
        let mut write =
            Write::update(Table::Queue, keys::task(&ready.key.namespace, &ready.name), expression)
                .when("version = :seen AND #status = :waiting AND attribute_exists(ready_pk)")
                .when("attribute_not_exists(#format) OR #format <= :format")
                .name("#status", "status")
                .name("#format", "format")
                .value(":format", n(FORMAT))
                .name("#state", "state")
                .name("#progress", "progress")
                .value(":next", n(ready.version.next().0))
                .value(":running", s(Status::Running.as_str()))
                .value(":state", s(TaskState::Running.as_str()))
                .value(":iso", s(iso(now)))
                .value(":now", us(now))
                .value(":one", n(1))
                .value(":seen", n(ready.version.0))
                .value(":waiting", s(waiting.as_str()));
        for (name, value) in lease_values(&held) {
            write = write.value(name, value);
        }
        if self.is_limited {
            write = write.value(":true", AttributeValue::Bool(true));
        }
        write
    }
}

fn claim_gate(task: &TaskKey, key: &weaver_core::name::SerialKey, gate: &Gate) -> Vec<Write> {
    let taken =
        Write::update(Table::Data, keys::gate(&task.namespace, key), "SET holder = :id ADD turn :one");
    let taken = taken
        .when("turn = :turn AND attribute_not_exists(holder)")
        .value(":id", n(task.id.0))
        .value(":one", n(1))
        .value(":turn", n(gate.turn));
    let left = gate.head.iter().filter(|head| head.id == task.id);
    let left = left.map(|head| Write::delete(Table::Data, keys::member(&task.namespace, key, &head.sort)));
    std::iter::once(taken).chain(left).collect()
}
