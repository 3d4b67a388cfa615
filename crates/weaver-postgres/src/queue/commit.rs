//! Commits of decided transitions: ends of attempts in batches of one statement, all others on locked rows.
//! Fencing: an end applies only to a row with the lease's version and epoch.

use std::collections::HashSet;

use bytes::Bytes;
use sqlx::{PgConnection, Row};
use weaver_core::error::Error;
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::Lease;
use weaver_core::lifecycle::{HolderChange, Refused, Transition};
use weaver_core::outcome::{Outcome, RESULT_MAX_BYTES};
use weaver_core::ports::Tasks;
use weaver_core::queue::{Committed, LeaderEpoch};
use weaver_core::task::TaskState;

use crate::PostgresStore;
use crate::error::{Result, StoreFault};
use crate::names::{cause_word, outcome_word};
use crate::row::RUN_FORMAT;
use crate::types::{Token, micros, storable};

/// Transitions on locked rows per transaction.
const MOVES_MAX: usize = 200;

impl PostgresStore {
    pub(super) async fn commit_all(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        if self.quarantine.is_empty() {
            return self.commit_readable(transitions, leader).await;
        }
        // An unreadable run is not changed, not even by an end that does not read the row.
        let is_quarantined: Vec<bool> =
            transitions.iter().map(|transition| self.is_quarantined(&transition.key)).collect();
        let readable =
            transitions.into_iter().zip(&is_quarantined).filter(|(_, is_quarantined)| !**is_quarantined);
        let readable = readable.map(|(transition, _)| transition).collect();
        let mut answers = self.commit_readable(readable, leader).await?.into_iter();
        let answer = |is_quarantined| if is_quarantined { None } else { answers.next() };
        Ok(is_quarantined.into_iter().map(answer).map(|answer| answer.unwrap_or(Committed::Stale)).collect())
    }

    async fn commit_readable(
        &self,
        transitions: Vec<Transition>,
        leader: Option<LeaderEpoch>,
    ) -> Result<Vec<Committed>> {
        let mut answers = Vec::with_capacity(transitions.len());
        if let Some(leader) = leader {
            answers = self.retry_transient(|| self.commit_as_leader(&transitions, &leader)).await?;
        } else {
            let mut rest = transitions.as_slice();
            while !rest.is_empty() {
                let ends = ahead(rest, |transition| End::of(transition).is_some());
                let others = ahead(rest, |transition| End::of(transition).is_none()).min(MOVES_MAX);
                let (batch, after) = rest.split_at(ends.max(others));
                answers.extend(match ends {
                    0 => self.commit_moves_each(batch).await?,
                    _ => self.commit_ends(batch).await?,
                });
                rest = after;
            }
        }
        if answers.iter().any(|answer| matches!(answer, Committed::Applied { .. })) {
            self.hints.moved();
        }
        if transitions.iter().any(|transition| transition.to == TaskState::Cancelled) {
            self.hints.cancelled();
        }
        Ok(answers)
    }

    /// Ends of attempts that need no read first, each of a different run.
    async fn commit_ends(&self, batch: &[Transition]) -> Result<Vec<Committed>> {
        let mut applied: HashSet<&TaskKey> = HashSet::with_capacity(batch.len());
        let mut groups: Vec<(Option<End>, Vec<&Transition>)> = Vec::new();
        for transition in batch {
            let kind = End::of(transition);
            let same = |(of, members): &&mut (Option<End>, Vec<&Transition>)| {
                *of == kind && members[0].key.namespace == transition.key.namespace
            };
            match groups.iter_mut().find(same) {
                Some((_, members)) => members.push(transition),
                None => groups.push((kind, vec![transition])),
            }
        }
        let mut held = None;
        for (kind, members) in &groups {
            let ids = match self.retry_transient(|| self.end(*kind, members)).await {
                Err(fault) if fault.is_lock_timeout() => {
                    held = Some(self.end_unlocked(*kind, members, fault).await);
                    continue;
                }
                Err(fault) if fault.is_about_data() => self.end_each(*kind, members, fault).await?,
                ids => ids?,
            };
            let ids: HashSet<i64> = ids.into_iter().collect();
            let made = members.iter().filter(|member| ids.contains(&(member.key.id.0 as i64)));
            applied.extend(made.map(|member| &member.key));
        }
        match held {
            Some(fault) => Err(fault),
            None => self.answers(batch, &applied).await,
        }
    }

    pub(super) async fn end(&self, kind: Option<End>, members: &[&Transition]) -> Result<Vec<i64>> {
        match kind {
            Some(End::Retry) => self.retry(members).await,
            Some(End::Success) => self.end_all(members, true).await,
            Some(End::Failure) | None => self.end_all(members, false).await,
        }
    }

    /// Another transaction has locked one of the runs: the unlocked ones are ended nevertheless, so that the
    /// lock delays one task and not the batch. A caller that repeats the call finds those already applied.
    async fn end_unlocked(&self, kind: Option<End>, members: &[&Transition], held: StoreFault) -> StoreFault {
        let free = self.sql.unlocked_tasks.scalar().bind(ids(members)).bind(tokens(members));
        let free: HashSet<i64> = match free.fetch_all(&self.connections).await {
            Ok(free) => free.into_iter().collect(),
            Err(error) => return error.into(),
        };
        let free: Vec<&Transition> =
            members.iter().filter(|member| free.contains(&(member.key.id.0 as i64))).copied().collect();
        if free.is_empty() {
            return held;
        }
        match self.retry_transient(|| self.end(kind, &free)).await {
            Ok(_) => {
                self.hints.moved();
                held
            }
            Err(fault) => fault,
        }
    }

    /// The answer for each: what was not applied now was applied before, or is stale.
    async fn answers(&self, batch: &[Transition], applied: &HashSet<&TaskKey>) -> Result<Vec<Committed>> {
        let others: Vec<TaskKey> = batch
            .iter()
            .filter(|transition| !applied.contains(&transition.key))
            .map(|transition| transition.key.clone())
            .collect();
        let mut found =
            if others.is_empty() { Vec::new() } else { self.get_tasks(&others).await? }.into_iter();
        let answer = |transition: &Transition| {
            if applied.contains(&transition.key) {
                return Committed::Applied { version: transition.expected_version.next() };
            }
            match found.next().flatten() {
                Some(record) if transition.is_already_applied(&record) => Committed::AlreadyApplied,
                _ => Committed::Stale,
            }
        };
        Ok(batch.iter().map(answer).collect())
    }

    /// Ends that are final. Successes send no arrays that would hold the same value for each.
    async fn end_all(&self, members: &[&Transition], succeeded: bool) -> Result<Vec<i64>> {
        let is_expiry = members.iter().any(|member| member.expected_renewals.is_some());
        let states = || members.iter().map(|member| member.to.index() as i16).collect::<Vec<_>>();
        let results = || members.iter().map(|member| member.result.as_deref()).collect::<Vec<_>>();
        let has_result = members.iter().any(|member| member.result.is_some());
        let row = self
            .sql
            .finish
            .query()
            .bind(members[0].key.namespace.as_str())
            .bind(ids(members))
            .bind(versions(members))
            .bind(epochs(members))
            .bind(tokens(members))
            .bind(is_expiry.then(|| renewals(members)))
            .bind((!succeeded).then(states))
            .bind((!succeeded).then(|| causes(members)))
            .bind((!succeeded).then(|| outcomes(members)))
            .bind((!succeeded).then(|| errors(members)))
            .bind(has_result.then(results))
            .bind(RUN_FORMAT)
            .fetch_one(&self.connections)
            .await?;
        // A freed serial key or slot may admit a waiting task.
        if row.try_get::<Option<bool>, _>(1)? == Some(true) {
            self.hints.work_ready();
        }
        let applied = row.try_get::<Option<Vec<i64>>, _>(0)?.unwrap_or_default();
        self.left(members, &applied);
        Ok(applied)
    }

    /// Notes which tasks have left their leases: a shared one without members is removed by the next claim.
    fn left(&self, members: &[&Transition], applied: &[i64]) {
        let applied: HashSet<i64> = applied.iter().copied().collect();
        let left = members.iter().filter(|member| applied.contains(&(member.key.id.0 as i64)));
        self.open_leases.left(left.filter_map(|member| member.expected_token));
    }

    async fn retry(&self, members: &[&Transition]) -> Result<Vec<i64>> {
        let delays: Vec<i64> =
            members.iter().map(|member| micros(member.ready_after.unwrap_or_default())).collect();
        let applied: Option<Vec<i64>> = self
            .sql
            .retry
            .scalar()
            .bind(members[0].key.namespace.as_str())
            .bind(ids(members))
            .bind(versions(members))
            .bind(epochs(members))
            .bind(tokens(members))
            .bind(renewals(members))
            .bind(causes(members))
            .bind(outcomes(members))
            .bind(delays)
            .bind(errors(members))
            .bind(RUN_FORMAT)
            .fetch_one(&self.connections)
            .await?;
        if applied.is_some() {
            self.hints.work_ready();
        }
        let applied = applied.unwrap_or_default();
        self.left(members, &applied);
        Ok(applied)
    }

    /// Completes a task within the handler's transaction: its writes and the completion are committed
    /// together or not at all. After its commit the handler returns the [`Outcome::Committed`], and the
    /// worker reads the task back.
    ///
    /// [`Error::Stale`]: the lease was lost; return the error, and the transaction is rolled back.
    ///
    /// ```no_run
    /// # use weaver_core::{lease::Lease, outcome::Outcome};
    /// # use weaver_postgres::PostgresStore;
    /// # async fn ship(order: i64, lease: &Lease, store: &PostgresStore) -> Result<Outcome, Box<dyn std::error::Error>> {
    /// let mut transaction = store.pool().begin().await?;
    /// sqlx::query("UPDATE orders SET shipped = true WHERE id = $1").bind(order).execute(&mut *transaction).await?;
    /// let end = store.complete_in(&mut transaction, lease, None).await?; // in a handler: `ctx.lease()`
    /// transaction.commit().await?;
    /// Ok(end)
    /// # }
    /// ```
    ///
    /// A commit without an answer may have been applied: return the outcome, and the worker finds out.
    pub async fn complete_in(
        &self,
        connection: &mut PgConnection,
        lease: &Lease,
        result: Option<Bytes>,
    ) -> Result<Outcome, Error> {
        let bytes = result.as_ref().map_or(0, Bytes::len);
        if bytes > RESULT_MAX_BYTES {
            let refused = Refused::ResultTooLarge { bytes, max_bytes: RESULT_MAX_BYTES };
            return Err(Error::Refused { key: lease.key.clone(), refused });
        }
        // On no other connection: the pool's may all be held by transactions that are about to complete a
        // task.
        let is_completed: bool = self
            .sql
            .complete
            .scalar()
            .bind(lease.key.namespace.as_str())
            .bind(lease.key.id.0 as i64)
            .bind(lease.version.0 as i64)
            .bind(lease.epoch.0 as i64)
            .bind(Token(lease.token))
            .bind(result.as_deref())
            .bind(RUN_FORMAT)
            .fetch_one(connection)
            .await
            .map_err(StoreFault::from)?;
        if !is_completed {
            return Err(Error::Stale { key: lease.key.clone() });
        }
        self.open_leases.left(std::iter::once(lease.token));
        Ok(Outcome::Committed)
    }

    /// A leader's transitions, in one transaction that holds its document (the epoch) `FOR SHARE`.
    async fn commit_as_leader(
        &self,
        transitions: &[Transition],
        leader: &LeaderEpoch,
    ) -> Result<Vec<Committed>> {
        let mut transaction = self.begin().await?;
        let table = self.tables.of(&leader.document.kind);
        let current: Option<i64> = table
            .leader
            .scalar()
            .bind(leader.document.namespace.as_str())
            .bind(&leader.document.kind)
            .bind(&leader.document.id)
            .fetch_optional(&mut *transaction)
            .await?;
        let current = Version(current.unwrap_or(0).unsigned_abs());
        if current != leader.epoch {
            return Err(Error::Deposed { epoch: leader.epoch, current }.into());
        }
        let (mut answers, mut rest) = (Vec::with_capacity(transitions.len()), transitions);
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(ahead(rest, |_| true));
            answers.extend(self.apply(&mut transaction, batch).await?);
            rest = after;
        }
        transaction.commit().await?;
        self.hints.work_ready();
        Ok(answers)
    }

    /// All other transitions, each of a different run, in one transaction.
    pub(super) async fn commit_moves(&self, batch: &[Transition]) -> Result<Vec<Committed>> {
        let mut transaction = self.begin().await?;
        let answers = self.apply(&mut transaction, batch).await?;
        transaction.commit().await?;
        if answers.iter().any(|answer| matches!(answer, Committed::Applied { .. })) {
            self.hints.work_ready();
        }
        Ok(answers)
    }
}

/// The length of the longest prefix of this kind in which no run occurs twice.
fn ahead(transitions: &[Transition], is_of_kind: impl Fn(&Transition) -> bool) -> usize {
    let mut keys = HashSet::new();
    transitions.iter().take_while(|transition| is_of_kind(transition) && keys.insert(&transition.key)).count()
}

/// Ends of attempts that are written in batches without reading the run first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Success,
    /// The task is retried, or waits again after a release or snooze.
    Retry,
    /// Dead, or cancelled by its handler.
    Failure,
}

impl End {
    fn of(transition: &Transition) -> Option<Self> {
        // A run without a lease has no epoch to compare: it is written on the locked row.
        let ends = transition.from == TaskState::Running
            && transition.expected_epoch.is_some()
            && transition.expected_token.is_some()
            && transition.holder == HolderChange::Clear
            && transition.attempt_ended.is_some();
        match transition.to {
            _ if !ends => None,
            TaskState::Succeeded if transition.expected_renewals.is_none() && transition.error.is_none() => {
                Some(Self::Success)
            }
            TaskState::RetryScheduled if transition.result.is_none() => Some(Self::Retry),
            TaskState::Dead | TaskState::Cancelled if transition.result.is_none() => Some(Self::Failure),
            _ => None,
        }
    }
}

fn ids(members: &[&Transition]) -> Vec<i64> {
    members.iter().map(|member| member.key.id.0 as i64).collect()
}

fn epochs(members: &[&Transition]) -> Vec<i64> {
    members.iter().map(|member| member.expected_epoch.map_or(0, |epoch| epoch.0 as i64)).collect()
}

fn versions(members: &[&Transition]) -> Vec<i64> {
    members.iter().map(|member| member.expected_version.0 as i64).collect()
}

fn renewals(members: &[&Transition]) -> Vec<Option<i64>> {
    members.iter().map(|member| member.expected_renewals.map(|count| count as i64)).collect()
}

fn causes<'a>(members: &[&'a Transition]) -> Vec<Option<&'a str>> {
    members.iter().map(|member| member.cause.map(cause_word)).collect()
}

fn outcomes<'a>(members: &[&'a Transition]) -> Vec<Option<&'a str>> {
    members.iter().map(|member| member.attempt_ended.map(outcome_word)).collect()
}

/// The tokens of the leases they were decided under; [`End::of`] has checked that there is one.
fn tokens(members: &[&Transition]) -> Vec<Option<Token>> {
    members.iter().map(|member| member.expected_token.map(Token)).collect()
}

fn errors(members: &[&Transition]) -> Vec<Option<String>> {
    members.iter().map(|member| member.error.as_deref().map(|text| storable(text).into_owned())).collect()
}
