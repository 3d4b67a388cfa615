//! Overdue tasks, mainly lease expiry.
//!
//! DynamoDB has no clock: a lease has expired when an observer has seen no change of its `renewals` for the
//! lease's whole TTL, on the observer's own monotonic clock. No two clocks are compared.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use weaver_core::admission;
use weaver_core::error::Result;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::lifecycle::OverdueReason;
use weaver_core::name::Namespace;
use weaver_core::queue::Overdue;
use weaver_core::task::TaskState;

use crate::codec::foreign;
use crate::codec::value::Attributes;
use crate::db::{Item, Query, Range, Table};
use crate::keys;
use crate::leases::Plan;
use crate::store::{DynamoStore, LeaseObservation, Stored};

/// Age at which a dangling entry or plan is removed: its writer may not have finished before.
const DANGLING_AFTER: Duration = Duration::from_secs(3600);

impl DynamoStore {
    pub(super) async fn find_overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        self.flush_counts_if_due().await;
        self.review_if_due().await?;
        let limit = limit as usize;
        let mut overdue = self.overdue_leases(limit).await?;
        if overdue.len() < limit {
            overdue.extend(self.overdue_expiries(limit - overdue.len()).await?);
        }
        if overdue.len() < limit {
            overdue.extend(self.overdue_foreign(limit - overdue.len()).await?);
        }
        Ok(overdue)
    }

    async fn overdue_leases(&self, limit: usize) -> Result<Vec<Overdue>> {
        let shards = (0..keys::LEASE_SHARDS)
            .map(|shard| self.query_all(Query::table(Table::Data, keys::lease_partition(shard))));
        let items = try_join_all(shards).await?.into_iter().flatten();
        let plans: Vec<Plan> = items.filter_map(|item| Plan::of(&item)).collect();
        let mut wanted: Vec<TaskKey> = plans.iter().flat_map(Plan::keys).collect();
        wanted.sort();
        wanted.dedup();
        let tasks = self.load(&wanted).await?;
        let mut overdue = Vec::new();
        for plan in &plans {
            let mut is_dangling = true;
            for key in plan.keys() {
                let Some(stored) = tasks.get(&key) else {
                    // It may become readable again, and is then found here.
                    is_dangling &= !self.is_quarantined(&key);
                    continue;
                };
                if stored.record.lease.as_ref().is_none_or(|held| held.token != plan.token) {
                    continue;
                }
                is_dangling = false;
                if foreign::is_moved(&stored.item) {
                    self.reconcile(stored.clone()).await?;
                }
                if let Some(why) = self.is_over(stored)
                    && overdue.len() < limit
                    && !overdue.iter().any(|item: &Overdue| item.record.key == key)
                {
                    overdue.push(Overdue { record: stored.record.clone(), reason: why });
                }
            }
            if is_dangling {
                self.drop_dangling_plan(plan).await;
            }
        }
        Ok(overdue)
    }

    /// Whether a lease or hold was not renewed for its whole TTL, as observed by this process.
    fn is_over(&self, stored: &Stored) -> Option<OverdueReason> {
        let record = &stored.record;
        let why = match record.state {
            TaskState::Running => OverdueReason::Lease,
            TaskState::Cancelled => OverdueReason::Hold,
            _ => return None,
        };
        let span = Duration::from_micros(stored.item.number("lease_span_us")?);
        let now = self.clock.monotonic();
        let mut observations = self.observations.lock();
        let fresh = LeaseObservation { version: record.version, renewals: record.renewals, at: now };
        let seen = observations.entry(record.key.clone()).or_insert(fresh);
        if (seen.version, seen.renewals) != (record.version, record.renewals) {
            // The renewal happened before it was read, so the lease never expires too early.
            *seen = fresh;
        }
        (seen.at.saturating_add(span) <= now).then_some(why)
    }

    /// Removes a plan without leased tasks after [`DANGLING_AFTER`]: its caller may still be claiming.
    async fn drop_dangling_plan(&self, plan: &Plan) {
        let now = self.clock.monotonic();
        let is_old = {
            let mut poll_state = self.poll_state.lock();
            let seen = poll_state.dangling_plans.entry(plan.token).or_insert((plan.revision, now));
            if seen.0 != plan.revision {
                *seen = (plan.revision, now);
            }
            let is_old = seen.1.saturating_add(DANGLING_AFTER) <= now;
            if is_old {
                poll_state.dangling_plans.remove(&plan.token);
            }
            is_old
        };
        if is_old {
            self.drop_plan(plan.token, plan.revision).await;
        }
    }

    /// Tasks whose `expires_at` has passed before their first start.
    async fn overdue_expiries(&self, limit: usize) -> Result<Vec<Overdue>> {
        let now = self.now();
        let Some(latest) = admission::latest_expired(now) else { return Ok(Vec::new()) };
        let next = latest.saturating_add(Duration::from_micros(1));
        let query = Query::table(Table::Data, keys::EXPIRING).range(Range::Before(next.to_string()));
        let (mut overdue, mut start) = (Vec::new(), None);
        loop {
            let found = self.db.query(query.clone().limit(100).after(start)).await?;
            let entries: HashMap<TaskKey, Item> =
                found.items.into_iter().filter_map(|item| Some((expiring_task(&item)?, item))).collect();
            let mut wanted: Vec<TaskKey> = entries.keys().cloned().collect();
            wanted.sort();
            let mut tasks = self.load(&wanted).await?;
            let mut dangling = Vec::new();
            for key in wanted {
                match tasks.remove(&key) {
                    Some(stored) if stored.record.is_expired(now) => {
                        overdue.push(Overdue { record: stored.record, reason: OverdueReason::ExpiresAt });
                    }
                    _ if self.is_quarantined(&key) => {}
                    _ => dangling.extend(entries.get(&key).filter(|entry| is_old(entry, now)).map(data_key)),
                }
            }
            self.db.remove(Table::Data, dangling).await?;
            match found.next {
                Some(next) if overdue.len() < limit => start = Some(next),
                _ => break,
            }
        }
        overdue.truncate(limit);
        Ok(overdue)
    }
}

fn expiring_task(item: &Item) -> Option<TaskKey> {
    let parts = keys::split(item.text("sk")?);
    let [_, namespace, id] = parts.as_slice() else { return None };
    Some(TaskKey::new(Namespace::try_from(*namespace).ok()?, TaskId(id.parse().ok()?)))
}

/// Whether an entry is old enough that its writer must have finished or crashed.
pub(super) fn is_old(entry: &Item, now: weaver_core::time::Timestamp) -> bool {
    entry.instant("put_at_us").is_none_or(|at| now.since(at) >= DANGLING_AFTER)
}

pub(super) fn data_key(item: &Item) -> Item {
    keys::data(item.text("pk").unwrap_or_default(), item.text("sk").unwrap_or_default())
}
