//! Lease renewal: one statement per round, with SKIP LOCKED, so that it never waits for a row lock.

use std::collections::HashSet;

use weaver_core::id::TaskKey;
use weaver_core::lease::{ContinuationChange, LEASE_TTL_MAX, Renewal, Renewed};
use weaver_core::lifecycle;
use weaver_core::ports::Tasks;
use weaver_core::task::Progress;

use crate::PostgresStore;
use crate::error::Result;
use crate::types::{Token, micros, storable};

impl PostgresStore {
    pub(super) async fn renew_all(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        let mut answers: Vec<Option<Renewed>> = vec![None; renewals.len()];
        let mut left: Vec<usize> = (0..renewals.len()).collect();
        // A run that is renewed twice in one call is renewed in two rounds.
        while !left.is_empty() {
            let mut keys: HashSet<&TaskKey> = HashSet::new();
            let (round, later): (Vec<usize>, Vec<usize>) =
                left.into_iter().partition(|at| keys.insert(&renewals[*at].lease.key));
            for group in by_namespace(&renewals, round) {
                let members: Vec<&Renewal> = group.iter().map(|at| &renewals[*at]).collect();
                let round_answers = self.renew_round(&members).await?;
                for (at, answer) in group.iter().zip(round_answers) {
                    answers[*at] = Some(answer);
                }
            }
            left = later;
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Renewed::Busy)).collect())
    }

    async fn renew_round(&self, members: &[&Renewal]) -> Result<Vec<Renewed>> {
        let extended: HashSet<i64> =
            self.retry_transient(|| self.extend(members)).await?.into_iter().collect();
        let is_extended = |member: &&Renewal| extended.contains(&(member.lease.key.id.0 as i64));
        let others: Vec<TaskKey> = members
            .iter()
            .filter(|member| !is_extended(member))
            .map(|member| member.lease.key.clone())
            .collect();
        let found = if others.is_empty() { Vec::new() } else { self.get_tasks(&others).await? };
        let mut found = found.into_iter();
        let answer = |member: &&Renewal| {
            if is_extended(member) {
                return Renewed::Extended;
            }
            let Some(mut record) = found.next().flatten() else { return Renewed::Lost };
            let now = record.updated_at;
            match lifecycle::renew(&mut record, (*member).clone(), now) {
                // The lease is valid, but another transaction has locked the row.
                Renewed::Extended => Renewed::Busy,
                answer => answer,
            }
        };
        Ok(members.iter().map(answer).collect())
    }

    async fn extend(&self, members: &[&Renewal]) -> Result<Vec<i64>> {
        let ids: Vec<i64> = members.iter().map(|member| member.lease.key.id.0 as i64).collect();
        let versions: Vec<i64> = members.iter().map(|member| member.lease.version.0 as i64).collect();
        let tokens: Vec<Token> = members.iter().map(|member| Token(member.lease.token)).collect();
        let epochs: Vec<i64> = members.iter().map(|member| member.lease.epoch.0 as i64).collect();
        let progress: Vec<Option<Progress>> =
            members.iter().map(|member| member.progress.clone().map(Progress::bounded)).collect();
        let fractions: Vec<Option<f32>> =
            progress.iter().map(|progress| progress.as_ref().map(|progress| progress.fraction)).collect();
        let messages: Vec<Option<String>> = progress
            .iter()
            .map(|progress| progress.as_ref().map(|progress| storable(&progress.message).into_owned()))
            .collect();
        let within: Vec<Option<i64>> = members
            .iter()
            .map(|member| match member.continuation {
                Some(ContinuationChange::Confirming { within }) => Some(micros(within.min(LEASE_TTL_MAX))),
                _ => None,
            })
            .collect();
        let ends_doubt: Vec<bool> = members
            .iter()
            .map(|member| matches!(member.continuation, Some(ContinuationChange::Continue)))
            .collect();
        let extended: Option<Vec<i64>> = self
            .sql
            .renew
            .scalar()
            .bind(members[0].lease.key.namespace.as_str())
            .bind(ids)
            .bind(versions)
            .bind(tokens)
            .bind(epochs)
            .bind(fractions)
            .bind(messages)
            .bind(within)
            .bind(ends_doubt)
            .fetch_one(&self.connections)
            .await?;
        Ok(extended.unwrap_or_default())
    }
}

fn by_namespace(renewals: &[Renewal], round: Vec<usize>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in round {
        let same = |group: &&mut Vec<usize>| {
            renewals[group[0]].lease.key.namespace == renewals[at].lease.key.namespace
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}
