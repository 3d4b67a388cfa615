//! A lease call stores many leases in one row. Whatever happens to some of its tasks, each behaves as if it
//! had been leased alone; and concurrent writers of one row leave every task in exactly one place.

mod support;

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use sqlx::Row;
use support::{OnServer, Schema};
use weaver_core::lease::{ContinuationChange, Renewal};
use weaver_core::lifecycle::{Command, OverdueReason, decide};
use weaver_core::ports::{PurgeRule, Store, Tasks};
use weaver_core::prelude::*;
use weaver_core::task::Progress;
use weaver_postgres::PostgresStore;
use weaver_testkit::harness::TestStore;

const TASKS: usize = 5;

/// A step that both worlds take. Sets of tasks are bit masks.
#[derive(Debug, Clone, Copy)]
enum Step {
    Lease,
    Renew(u8, bool),
    Confirm(u8, bool),
    End(u8, u8),
    Cancel(u8),
    Stopped(u8),
    RunNow(u8),
    Advance(u8),
    Expire,
    /// Retention, which removes what has ended.
    Purge,
    Discard(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let some = 1_u8..(1 << TASKS);
    let one = 0..TASKS as u8;
    prop_oneof![
        3 => Just(Step::Lease),
        3 => (some.clone(), any::<bool>()).prop_map(|(set, progress)| Step::Renew(set, progress)),
        1 => (one.clone(), any::<bool>()).prop_map(|(task, on)| Step::Confirm(task, on)),
        5 => (some.clone(), 0_u8..5).prop_map(|(set, kind)| Step::End(set, kind)),
        2 => one.clone().prop_map(Step::Cancel),
        1 => one.clone().prop_map(Step::Stopped),
        1 => one.clone().prop_map(Step::RunNow),
        2 => (1_u8..20).prop_map(Step::Advance),
        2 => Just(Step::Expire),
        1 => Just(Step::Purge),
        1 => one.prop_map(Step::Discard),
    ]
}

fn outcome(kind: u8) -> Outcome {
    match kind {
        0 => Outcome::DONE,
        1 => Outcome::failed("x"),
        2 => Outcome::fatal("y"),
        3 => Outcome::Released,
        _ => Outcome::Snoozed { delay: Duration::from_secs(5) },
    }
}

/// A store, and the last lease of each task.
struct World {
    place: OnServer,
    keys: Vec<TaskKey>,
    leases: Vec<Option<Leased>>,
    /// Tasks per lease call.
    per_call: u32,
    calls: u128,
}

impl World {
    async fn new(per_call: u32) -> Self {
        let place = support::on_server().await;
        let tasks = vec![NewTask::new("t").max_attempts(3); TASKS];
        let answers = place.store().enqueue_batch(tasks).await.expect("the store answers");
        let keys: Vec<_> = answers.into_iter().map(|answer| answer.expect("stored").key).collect();
        Self { place, leases: vec![None; keys.len()], keys, per_call, calls: 0 }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.place.store()
    }

    fn held(&self, set: u8) -> Vec<Leased> {
        let chosen = self.leases.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
        chosen.filter_map(|(_, leased)| leased.clone()).collect()
    }

    /// The answers, in words that do not depend on tokens.
    async fn take(&mut self, step: Step) -> String {
        let store = self.store();
        match step {
            Step::Lease => self.lease().await,
            Step::Renew(set, progress) => {
                let progress = progress.then(|| Progress { fraction: 0.5, message: "half".to_owned() });
                let renewal =
                    |held: Leased| Renewal { progress: progress.clone(), ..Renewal::of(held.lease) };
                let renewals = self.held(set).into_iter().map(renewal).collect();
                format!("{:?}", store.renew(renewals).await)
            }
            Step::Confirm(task, on) => {
                let change = match on {
                    true => ContinuationChange::Confirming { within: Duration::from_secs(50) },
                    false => ContinuationChange::Continue,
                };
                let renewal =
                    |held: Leased| Renewal { continuation: Some(change), ..Renewal::of(held.lease) };
                let renewals = self.held(1 << task).into_iter().map(renewal).collect();
                format!("{:?}", store.renew(renewals).await)
            }
            Step::End(set, kind) => {
                let ends = self.held(set).into_iter().filter_map(|held| {
                    let command = Command::Finish { lease: held.lease.clone(), outcome: outcome(kind) };
                    decide(&held.record, command, held.record.updated_at).ok()
                });
                format!("{:?}", store.commit(ends.collect(), None).await)
            }
            Step::Cancel(task) => format!("{:?}", store.cancel(&self.keys[usize::from(task)]).await.is_ok()),
            Step::Stopped(task) => {
                let leases = self.held(1 << task).into_iter().map(|held| held.lease).collect();
                format!("{:?}", store.confirm_stopped(leases).await)
            }
            Step::RunNow(task) => format!("{:?}", store.run_now(&self.keys[usize::from(task)]).await.is_ok()),
            Step::Advance(seconds) => {
                self.place.advance(Duration::from_secs(seconds.into())).await;
                String::new()
            }
            Step::Expire => self.expire().await,
            Step::Purge => {
                let rule =
                    PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
                format!("{:?}", store.purge_tasks(rule, 100).await)
            }
            Step::Discard(task) => {
                let key = &self.keys[usize::from(task)];
                let Some(raw) = store.raw_task(key).await.expect("the store answers") else {
                    return String::new();
                };
                format!("{:?}", store.discard_task(key, &raw).await)
            }
        }
    }

    async fn lease(&mut self) -> String {
        let mut got = Vec::new();
        loop {
            self.calls += 1;
            let (worker, token) = (WorkerId::new("w").expect("a name"), LeaseToken(self.calls));
            let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
            let (max, slots) = (self.per_call, self.per_call);
            let leased = self.store().lease(LeaseRequest { max, slots, ..request }).await;
            let leased = leased.expect("the store answers");
            if leased.is_empty() {
                return format!("{got:?}");
            }
            for each in leased {
                let at =
                    self.keys.iter().position(|key| *key == each.lease.key).expect("a task of this world");
                got.push((at, each.lease.version, each.lease.attempt));
                self.leases[at] = Some(each);
            }
        }
    }

    async fn expire(&self) -> String {
        let mut overdue = self.store().overdue(100).await.expect("the store answers");
        overdue.sort_by_key(|each| each.record.key.id);
        let mut said = Vec::new();
        for each in overdue {
            said.push((each.record.key.id, each.reason));
            if each.reason == OverdueReason::Hold {
                let hold = each.record.hold().expect("it is a hold");
                self.store().confirm_stopped(vec![hold]).await.expect("the store answers");
                continue;
            }
            let now = each.record.updated_at;
            let Ok(end) = decide(&each.record, Command::Expire(each.reason), now) else { continue };
            let _ = self.store().commit(vec![end], None).await.expect("the store answers");
        }
        format!("{said:?}")
    }

    /// The records, without the tokens of their leases.
    async fn records(&self) -> Vec<Option<TaskRecord>> {
        let mut records = self.store().get_tasks(&self.keys).await.expect("the store answers");
        for record in records.iter_mut().flatten() {
            if let Some(held) = &mut record.lease {
                held.token = LeaseToken(0);
            }
        }
        records
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_sequence_on_a_lease_of_many_equals_the_same_on_leases_of_one(steps in vec(step(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (mut many, mut one) = (World::new(TASKS as u32).await, World::new(1).await);
            for (at, step) in [Step::Lease].into_iter().chain(steps).enumerate() {
                let answers = (many.take(step).await, one.take(step).await);
                prop_assert_eq!(&answers.0, &answers.1, "step {} {:?}", at, step);
                prop_assert_eq!(many.records().await, one.records().await, "after step {} {:?}", at, step);
                prop_assert_eq!(many.place.misplaced().await, 0, "after step {} {:?}", at, step);
            }
            for world in [&many, &one] {
                world.place.finish(&world.keys).await;
                prop_assert_eq!(world.place.lease_rows().await, 0, "rows of ended tasks");
                world.place.schema.drop(&world.place.direct).await;
            }
            Ok(())
        })?;
    }
}

/// Ends in parts, the same ends again, retries, cancellations and renewals of one lease call, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_of_one_lease_leave_every_task_in_one_place_with_one_end() {
    let schema = Schema::new();
    let clock = Arc::new(weaver_runtime::SystemClock::new());
    let store = Arc::new(PostgresStore::open(schema.options(), clock).await.expect("the schema can be made"));
    for round in 0..8_u128 {
        store.enqueue_batch(vec![NewTask::new("t"); 60]).await.expect("the store answers");
        let worker = WorkerId::new("w").expect("a name");
        let request =
            LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(round + 1));
        let leased = store.lease(LeaseRequest { max: 60, slots: 60, ..request }).await.expect("it answers");
        let mut writers = Vec::new();
        for part in 0..6 {
            // Each task is in two parts, with different outcomes in half of the rounds.
            let members: Vec<Leased> = leased
                .iter()
                .enumerate()
                .filter(|(at, _)| at % 6 == part || at % 5 == part)
                .map(|(_, each)| each.clone())
                .collect();
            let kind = if round % 2 == 0 { 0 } else { part as u8 % 4 };
            let store = Arc::clone(&store);
            writers.push(async move {
                let ends = members.iter().filter_map(|held| {
                    let command = Command::Finish { lease: held.lease.clone(), outcome: outcome(kind) };
                    decide(&held.record, command, held.record.updated_at).ok()
                });
                let ends: Vec<_> = ends.collect();
                // Another writer may hold the lock for longer than a call waits.
                while store.commit(ends.clone(), None).await.is_err() {}
            });
        }
        let (cancelled, renewed) = (leased[7].lease.key.clone(), leased.clone());
        let (canceller, renewer) = (Arc::clone(&store), Arc::clone(&store));
        // It may have ended already.
        let cancel = async move { drop(canceller.cancel(&cancelled).await) };
        let renew = async move {
            let some = renewed.iter().step_by(3).map(|each| Renewal::of(each.lease.clone()));
            renewer.renew(some.collect()).await.expect("the store answers").len()
        };
        tokio::join!(futures_util::future::join_all(writers), cancel, renew);
        let query = schema.sql("SELECT namespace, id, problem FROM weaver.misplaced(10)");
        let found = sqlx::query(query).fetch_all(store.pool()).await.expect("it can be asked");
        let found: Vec<(i64, String)> = found.iter().map(|row| (row.get(1), row.get(2))).collect();
        assert_eq!(found, [], "round {round}");
        let ids: Vec<i64> = leased.iter().map(|each| each.lease.key.id.0 as i64).collect();
        let query = schema.sql("SELECT count(*) FROM weaver.job_run_attempts WHERE run_id = ANY ($1)");
        let attempts: i64 =
            sqlx::query_scalar(query).bind(ids).fetch_one(store.pool()).await.expect("a count");
        assert_eq!(attempts, 60, "round {round}: each task left its lease once");
        let keys: Vec<TaskKey> = leased.iter().map(|each| each.lease.key.clone()).collect();
        for record in store.get_tasks(&keys).await.expect("the store answers").into_iter().flatten() {
            assert_ne!(record.state, TaskState::Running, "{record:?}");
            if !record.state.is_terminal() {
                store.cancel(&record.key).await.expect("it waits");
            }
        }
    }
    schema.drop(store.pool()).await;
}
