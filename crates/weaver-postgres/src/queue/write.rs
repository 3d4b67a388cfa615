//! Transitions on locked rows: core's `apply`, then a write of the result. A batch of any size is locked by
//! one statement and written by another.

use std::collections::HashMap;

use sqlx::{PgConnection, Postgres, Row, Transaction};
use weaver_core::admission::{self, QueueFacts};
use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Transition;
use weaver_core::ports::QueueSettings;
use weaver_core::projection::job_run::State;
use weaver_core::queue::{Blocked, Committed};
use weaver_core::task::{Assignment, Continuation, HeldLease, TaskRecord};
use weaver_core::time::Timestamp;

use crate::PostgresStore;
use crate::error::{Result, StoreFault};
use crate::names::{cause_word, outcome_word};
use crate::types::{At, Token, micros, storable};

/// A transition that was applied in memory and is not yet written.
struct Write<'a> {
    transition: &'a Transition,
    after: TaskRecord,
}

impl Write<'_> {
    fn lease(&self) -> Option<&HeldLease> {
        self.after.lease.as_ref()
    }

    fn assignment(&self) -> Option<&Assignment> {
        self.after.assignment.as_ref()
    }

    fn worker(&self) -> Option<&str> {
        let worker =
            self.lease().map(|held| &held.worker).or(self.assignment().map(|assigned| &assigned.worker));
        worker.map(|worker| worker.as_str())
    }

    fn deadline(&self) -> Option<At> {
        match self.after.continuation {
            Continuation::Confirming { check_deadline_at } => Some(At(check_deadline_at)),
            Continuation::None => None,
        }
    }

    /// Whether it ends an attempt but not the task.
    fn closes(&self) -> bool {
        self.transition.attempt_ended.is_some() && !self.after.state.is_terminal()
    }
}

impl PostgresStore {
    /// A transaction with the configured `lock_timeout`.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, Postgres>> {
        Ok(self.connections.begin_with_lock_timeout(self.options.lock_timeout).await?)
    }

    /// Applies transitions, each of a different run and only to the version it was decided on.
    pub(super) async fn apply(
        &self,
        connection: &mut PgConnection,
        transitions: &[Transition],
    ) -> Result<Vec<Committed>> {
        let keys: Vec<&TaskKey> = transitions.iter().map(|transition| &transition.key).collect();
        // In the order of ids, so that two batches cannot deadlock.
        let ids: Vec<i64> = keys.iter().map(|key| key.id.0 as i64).collect();
        self.sql.lock_tasks.query().bind(ids).execute(&mut *connection).await?;
        let mut found = self.records_of(connection, &keys).await?;
        let mut now = self.clock_of(connection).await?;
        let mut answers = Vec::with_capacity(transitions.len());
        let mut writes: Vec<Write<'_>> = Vec::new();
        for transition in transitions {
            let Some(mut after) = found.remove(&transition.key) else {
                answers.push(Committed::Stale);
                continue;
            };
            if !transition.fits(&after) {
                answers.push(refusal(transition, &after));
                continue;
            }
            if transition.admits() {
                // Earlier starts of this batch count towards the limits, so they must be visible.
                self.write(connection, std::mem::take(&mut writes)).await?;
                if let Some(why) = self.blocked(connection, &after, now).await? {
                    answers.push(Committed::Blocked(why));
                    continue;
                }
                // Read after key and slot were found free: a start is never stamped before its predecessor's
                // end.
                now = self.clock_of(connection).await?;
            }
            transition.clone().apply(&mut after, now);
            answers.push(Committed::Applied { version: after.version });
            writes.push(Write { transition, after });
        }
        self.write(connection, writes).await?;
        Ok(answers)
    }

    async fn clock_of(&self, connection: &mut PgConnection) -> Result<Timestamp> {
        let row = self.sql.clock.query().fetch_one(connection).await?;
        Ok(row.try_get::<At, _>(0)?.0)
    }

    async fn records_of(
        &self,
        connection: &mut PgConnection,
        keys: &[&TaskKey],
    ) -> Result<HashMap<TaskKey, TaskRecord>> {
        let rows = self
            .sql
            .get
            .query()
            .bind(keys.iter().map(|key| key.namespace.as_str()).collect::<Vec<_>>())
            .bind(keys.iter().map(|key| key.id.0 as i64).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        // An unreadable run counts as missing: its transition is stale.
        Ok(self.records(&rows).0.into_iter().map(|record| (record.key.clone(), record)).collect())
    }

    async fn blocked(
        &self,
        connection: &mut PgConnection,
        found: &TaskRecord,
        now: Timestamp,
    ) -> Result<Option<Blocked>> {
        let is_startable = found.is_startable(now.into());
        if !is_startable {
            return Ok(admission::blocked(is_startable, QueueFacts::default(), || false));
        }
        let row = self
            .sql
            .admission_facts
            .query()
            .bind(found.key.namespace.as_str())
            .bind(found.spec.queue.as_str())
            .bind(found.spec.serial_key.as_ref().map(|key| key.as_str()))
            .bind(found.key.id.0 as i64)
            .bind(found.executions as i32)
            .bind(At(now))
            .fetch_one(connection)
            .await?;
        let (paused, max_running): (bool, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        let (occupied, is_gated): (i64, bool) = (row.try_get(2)?, row.try_get(3)?);
        // An invalid limit has already been turned into a pause.
        let max_running = max_running.and_then(|max| u32::try_from(max).ok());
        let settings = QueueSettings { paused, max_running, ..QueueSettings::default() };
        let facts = QueueFacts { settings, occupied: occupied.unsigned_abs() };
        Ok(admission::blocked(is_startable, facts, || is_gated))
    }

    async fn write(&self, connection: &mut PgConnection, writes: Vec<Write<'_>>) -> Result<()> {
        fn all<'a, T>(writes: &'a [Write<'a>], value: impl Fn(&'a Write<'a>) -> T) -> Vec<T> {
            writes.iter().map(value).collect()
        }
        if writes.is_empty() {
            return Ok(());
        }
        let each = writes.as_slice();
        let text = |text: &str| storable(text).into_owned();
        let written: bool = self
            .sql
            .write_runs
            .scalar()
            .bind(all(each, |write| write.after.key.namespace.as_str()))
            .bind(all(each, |write| write.after.key.id.0 as i64))
            .bind(all(each, |write| write.transition.expected_version.0 as i64))
            .bind(all(each, |write| State::project(write.transition.from, None).as_str()))
            .bind(all(each, |write| State::of(&write.after).as_str()))
            .bind(all(each, |write| write.after.cause.map(cause_word)))
            .bind(all(each, |write| write.transition.attempt_ended.map(outcome_word)))
            .bind(all(each, |write| write.after.version.0 as i64))
            .bind(all(each, |write| At(write.after.updated_at)))
            .bind(all(each, |write| At(write.after.ready_at)))
            .bind(all(each, |write| write.after.first_started_at.map(At)))
            .bind(all(each, |write| write.after.finished_at.map(At)))
            .bind(all(each, |write| write.lease().map(|held| At(held.started_at))))
            .bind(all(each, |write| write.lease().map(|held| At(held.expires_at))))
            .bind(all(each, |write| write.lease().map(|held| micros(held.ttl))))
            .bind(all(each, |write| write.lease().map(|held| Token(held.token))))
            .bind(all(each, |write| write.lease().map(|held| held.epoch.0 as i64)))
            .bind(all(each, Write::worker))
            .bind(all(each, |write| write.assignment().map(|assigned| At(assigned.assigned_at))))
            .bind(all(each, |write| write.assignment().map(|assigned| assigned.epoch.0 as i64)))
            .bind(all(each, |write| write.after.attempt as i32))
            .bind(all(each, |write| write.after.executions as i32))
            .bind(all(each, |write| write.after.failures as i32))
            .bind(all(each, |write| write.after.losses as i32))
            .bind(all(each, Write::deadline))
            .bind(all(each, |write| write.after.last_error.as_deref().map(text)))
            .bind(all(each, |write| write.after.result.as_deref()))
            .bind(all(each, Write::closes))
            .bind(all(each, |write| write.transition.error.as_deref().map(text)))
            .fetch_one(connection)
            .await?;
        if written {
            Ok(())
        } else {
            Err(StoreFault::unreadable("a locked task changed before it was written"))
        }
    }
}

fn refusal(transition: &Transition, found: &TaskRecord) -> Committed {
    if transition.is_already_applied(found) { Committed::AlreadyApplied } else { Committed::Stale }
}
