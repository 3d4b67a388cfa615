//! One decided move on a locked row: core's `apply`, and what it left is written.

use sqlx::PgConnection;
use sqlx::Row;
use weaver_core::lifecycle::Transition;
use weaver_core::projection::seed_004::State;
use weaver_core::queue::{Blocked, Committed};
use weaver_core::task::{Continuation, TaskRecord};
use weaver_core::time::Timestamp;

use crate::PostgresStore;
use crate::error::{Outcome, Trouble};
use crate::names::{Seen, cause_word, outcome_word};
use crate::row::record;
use crate::types::{At, Token, micros, storable};

impl PostgresStore {
    /// Makes a move, if the run is what it was decided on.
    pub(super) async fn apply(
        &self,
        connection: &mut PgConnection,
        transition: &Transition,
    ) -> Outcome<Committed> {
        let (namespace, id) = (transition.key.namespace.as_str(), transition.key.id.0 as i64);
        let lock = sqlx::query(self.sql.lock_run.text()).bind(namespace).bind(id);
        let Some(row) = lock.fetch_optional(&mut *connection).await? else {
            return self.ended(connection, transition).await;
        };
        let mut found = record(&row, &mut Seen::default())?;
        if !transition.fits(&found) {
            return Ok(refusal(transition, &found));
        }
        let row = sqlx::query(self.sql.clock.text()).fetch_one(&mut *connection).await?;
        let now = row.try_get::<At, _>(0)?.0;
        if transition.admits()
            && let Some(why) = self.blocked(connection, &found, now).await?
        {
            return Ok(Committed::Blocked(why));
        }
        let from = found.state.index() as i32;
        transition.clone().apply(&mut found, now);
        self.write(connection, transition, &found, from).await?;
        Ok(Committed::Applied { version: found.version })
    }

    /// What a move means for a run that is not live any more.
    async fn ended(&self, connection: &mut PgConnection, transition: &Transition) -> Outcome<Committed> {
        let row = sqlx::query(self.sql.get.text())
            .bind(vec![transition.key.namespace.as_str()])
            .bind(vec![transition.key.id.0 as i64])
            .fetch_optional(connection)
            .await?;
        Ok(match row {
            Some(row) => refusal(transition, &record(&row, &mut Seen::default())?),
            None => Committed::Stale,
        })
    }

    async fn blocked(
        &self,
        connection: &mut PgConnection,
        found: &TaskRecord,
        now: Timestamp,
    ) -> Outcome<Option<Blocked>> {
        if found.ready_at > now || found.is_expired(now) {
            return Ok(Some(Blocked::NotDue));
        }
        let why: Option<String> = sqlx::query_scalar(self.sql.blocked.text())
            .bind(found.key.namespace.as_str())
            .bind(found.spec.queue.as_str())
            .bind(found.spec.serial_key.as_ref().map(|key| key.as_str()))
            .bind(found.key.id.0 as i64)
            .bind(found.executions as i32)
            .bind(At(now))
            .fetch_one(connection)
            .await?;
        Ok(match why.as_deref() {
            None => None,
            Some("paused") => Some(Blocked::Paused),
            Some("limit") => Some(Blocked::LimitReached),
            Some(_) => Some(Blocked::KeyHeld),
        })
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        transition: &Transition,
        after: &TaskRecord,
        from: i32,
    ) -> Outcome<()> {
        let (lease, given) = (after.lease.as_ref(), after.assignment.as_ref());
        let worker = lease.map(|held| &held.worker).or(given.map(|given| &given.worker));
        let deadline = match after.continuation {
            Continuation::Confirming { check_deadline_at } => Some(At(check_deadline_at)),
            Continuation::None => None,
        };
        let closes = transition.attempt_ended.is_some() && !after.state.is_terminal();
        let written: bool = sqlx::query_scalar(self.sql.write_run.text())
            .bind(after.key.namespace.as_str())
            .bind(after.key.id.0 as i64)
            .bind(transition.expected_version.0 as i64)
            .bind(State::project(transition.from, None).as_str())
            .bind(State::of(after).as_str())
            .bind(after.cause.map(cause_word))
            .bind(transition.attempt_ended.map(outcome_word))
            .bind(after.version.0 as i64)
            .bind(At(after.updated_at))
            .bind(At(after.ready_at))
            .bind(after.first_started_at.map(At))
            .bind(after.finished_at.map(At))
            .bind(lease.map(|held| At(held.started_at)))
            .bind(lease.map(|held| At(held.expires_at)))
            .bind(lease.map(|held| micros(held.ttl)))
            .bind(lease.map(|held| Token(held.token)))
            .bind(lease.map(|held| held.epoch.0 as i64))
            .bind(worker.map(|worker| worker.as_str()))
            .bind(given.map(|given| At(given.assigned_at)))
            .bind(given.map(|given| given.epoch.0 as i64))
            .bind(after.attempt as i32)
            .bind(after.executions as i32)
            .bind(after.failures as i32)
            .bind(after.losses as i32)
            .bind(deadline)
            .bind(after.last_error.as_deref().map(|text| storable(text).into_owned()))
            .bind(after.result.as_deref())
            .bind(closes)
            .bind(transition.error.as_deref().map(|text| storable(text).into_owned()))
            .bind(from)
            .bind(after.state.index() as i32)
            .fetch_one(connection)
            .await?;
        if written { Ok(()) } else { Err(Trouble::unreadable("a locked run that changed")) }
    }

    /// A move waits this long for somebody's transaction, and then says so.
    pub(super) async fn set_lock_timeout(&self, connection: &mut PgConnection) -> Outcome<()> {
        let timeout = self.options.lock_timeout.as_millis().to_string();
        sqlx::query(self.sql.lock_timeout.text()).bind(timeout).execute(connection).await?;
        Ok(())
    }
}

fn refusal(transition: &Transition, found: &TaskRecord) -> Committed {
    if transition.is_already_applied(found) { Committed::AlreadyApplied } else { Committed::Stale }
}
