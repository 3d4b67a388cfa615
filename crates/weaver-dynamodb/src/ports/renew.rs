//! Renews leases: usually one conditional update each, without a read. If the condition fails, the task is
//! read and the lifecycle decides.

use futures_util::stream::{self, StreamExt};
use weaver_core::error::Result;
use weaver_core::lease::{Renewal, Renewed};
use weaver_core::lifecycle;
use weaver_core::projection::queue_item::Status;
use weaver_core::task::Continuation;

use crate::codec::foreign;
use crate::codec::record::{self, micros};
use crate::codec::value::{n, s, us};
use crate::db::{Table, Write, Written};
use crate::keys;
use crate::ports::CONCURRENCY_MAX;
use crate::records::if_unchanged;
use crate::store::{DynamoStore, Stored};

/// Maximum number of attempts before a renewal returns `Busy`.
const TRIES_MAX: usize = 3;

impl DynamoStore {
    pub(super) async fn renew_all(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        let distinct: std::collections::HashSet<_> =
            renewals.iter().map(|renewal| renewal.lease.key.clone()).collect();
        // Renewals of the same task are made in order.
        let concurrency = if distinct.len() == renewals.len() { CONCURRENCY_MAX } else { 1 };
        let answers: Vec<Result<Renewed>> = stream::iter(renewals)
            .map(|renewal| self.renew_one(renewal))
            .buffered(concurrency)
            .collect()
            .await;
        answers.into_iter().collect()
    }

    async fn renew_one(&self, renewal: Renewal) -> Result<Renewed> {
        if let Some(stored) = self.cached(&renewal.lease.key)
            && let Some(answer) = self.renew_without_read(&renewal, stored).await?
        {
            return Ok(answer);
        }
        for _ in 0..TRIES_MAX {
            let Some(stored) = self.load_one(&renewal.lease.key).await? else { return Ok(Renewed::Lost) };
            let now = self.now();
            let mut record = stored.record.clone();
            let answer = lifecycle::renew(&mut record, renewal.clone(), now);
            if answer != Renewed::Extended {
                if foreign::is_moved(&stored.item) {
                    // Another client cancelled it; store that in our record too.
                    self.reconcile(stored).await?;
                }
                return Ok(answer);
            }
            let item = self.prepare(&record, Some(&stored)).await?;
            let write = if_unchanged(Write::put(Table::Queue, item.clone()), &stored.item);
            if let Written::Applied(_) = self.db.write(write).await? {
                self.observed(&record, self.clock.monotonic());
                self.remember(&Stored { item, record });
                return Ok(Renewed::Extended);
            }
        }
        Ok(Renewed::Busy)
    }

    /// Renews the lease of a cached task without reading it; `None` if the task must be read first.
    async fn renew_without_read(&self, renewal: &Renewal, mut stored: Stored) -> Result<Option<Renewed>> {
        let lease = &renewal.lease;
        let now = self.now();
        if renewal.continuation.is_some() || stored.record.continuation != Continuation::None {
            return Ok(None);
        }
        if lifecycle::renew(&mut stored.record, renewal.clone(), now) != Renewed::Extended {
            return Ok(None);
        }
        let record = &stored.record;
        let progress = match &record.progress {
            Some(progress) if renewal.progress.is_some() => serde_json::to_string(progress).ok(),
            _ => None,
        };
        let set_progress = if progress.is_some() { ", #progress = :progress" } else { "" };
        let expires_at = record.lease.as_ref().map_or(now, |held| held.expires_at);
        let expression = format!(
            "SET lease_expires_at_us = :expires, lease_span_us = :span{set_progress} ADD renewals :one"
        );
        let key = keys::task(&lease.key.namespace, &record::name_of(record));
        let mut write = Write::update(Table::Queue, key, expression)
            .when(
                "version = :version AND lease_token = :token AND lease_epoch = :epoch AND #status = :running \
                 AND attribute_not_exists(continuation)",
            )
            .name("#status", "status")
            .value(":expires", us(expires_at))
            .value(":span", n(micros(lease.ttl)))
            .value(":one", n(1))
            .value(":version", n(lease.version.0))
            .value(":token", s(keys::token_text(lease.token)))
            .value(":epoch", n(lease.epoch.0))
            .value(":running", s(Status::Running.as_str()));
        if let Some(progress) = progress {
            write = write.name("#progress", "progress").value(":progress", s(progress));
        }
        match self.db.write(write).await? {
            Written::Applied(item) => {
                if let Some(renewed) = self.read(vec![item]).await?.pop() {
                    self.observed(&renewed.record, self.clock.monotonic());
                    self.remember(&renewed);
                }
                Ok(Some(Renewed::Extended))
            }
            Written::ConditionFailed => {
                self.forget(&lease.key);
                Ok(None)
            }
            Written::Conflict => Ok(Some(Renewed::Busy)),
        }
    }
}
