//! Each fault behaves as documented, and the in-memory store keeps its guarantees under all of them.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weaver_core::clock::{Clock, ManualClock};
use weaver_core::error::{Error, Result};
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{Command, Grant, Transition, decide};
use weaver_core::name::{Namespace, QueueName};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{DocumentKey, Documents, Expect, Scope, Tasks};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::queue::{Blocked, Committed, Enqueued, Queue};
use weaver_core::task::{NewTask, TaskState};
use weaver_testkit::faults::{Fault, FaultyStore, Plan, Rates, Script, Seeded, SkewedClock};
use weaver_testkit::harness::{seconds, task, worker};

fn faulty(plan: impl Plan + 'static) -> (ManualClock, Arc<InMemoryQueue>, FaultyStore) {
    let clock = ManualClock::default();
    let inner = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
    let store = FaultyStore::new(inner.clone(), Arc::new(clock.clone()), plan);
    (clock, inner, store)
}

fn request(token: u128, max: u32) -> LeaseRequest {
    let request =
        LeaseRequest::new(Namespace::default(), QueueName::default(), worker("w"), LeaseToken(token));
    LeaseRequest { max, slots: max, ..request }
}

fn success(leased: &Leased) -> Transition {
    let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
    decide(&leased.record, command, leased.record.updated_at).expect("the lease was valid")
}

async fn enqueue(store: &dyn Queue, task: NewTask) -> Result<Enqueued> {
    store.enqueue_batch(vec![task]).await?.remove(0)
}

async fn total(store: &dyn Tasks) -> u64 {
    let counts = store.counts(Scope::Namespace(Namespace::default())).await;
    counts.expect("the store answers").values.total()
}

#[tokio::test]
async fn a_call_that_fails_before_writes_nothing() {
    let (_, inner, store) = faulty(Script::new().on("enqueue_batch", 1, Fault::FailBefore));
    let answer = enqueue(&store, task()).await;
    assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
    assert_eq!(total(&*inner).await, 0);
    assert!(enqueue(&store, task()).await.is_ok(), "the script says nothing about the second call");
}

#[tokio::test]
async fn a_call_whose_answer_is_lost_was_executed() {
    let (_, inner, store) = faulty(Script::new().on("enqueue_batch", 1, Fault::FailAfter));
    let answer = enqueue(&store, task()).await;
    assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
    assert_eq!(total(&*inner).await, 1);
}

#[tokio::test]
async fn a_lost_answer_and_a_repeated_enqueue_make_one_task_if_it_has_a_key() {
    let (_, inner, store) = faulty(Script::new().on("enqueue_batch", 1, Fault::FailAfter));
    assert!(enqueue(&store, task().idempotency_key("once")).await.is_err());
    let again = enqueue(&store, task().idempotency_key("once")).await.unwrap();
    assert!(again.existing);
    assert_eq!(total(&*inner).await, 1);
}

#[tokio::test]
async fn a_lost_lease_answer_is_repeated_with_its_token() {
    let (_, inner, store) = faulty(Script::new().on("lease", 1, Fault::FailAfter));
    for _ in 0..3 {
        enqueue(&store, task()).await.unwrap();
    }
    assert!(store.lease(request(7, 2)).await.is_err());
    let granted = store.lease(request(7, 2)).await.unwrap();
    assert_eq!(granted.len(), 2, "what the first call was granted, and nothing more");
    let counts = inner.counts(Scope::Namespace(Namespace::default())).await.unwrap().values;
    assert_eq!((counts.get(TaskState::Running), counts.get(TaskState::Queued)), (2, 1));
    assert!(granted.iter().all(|leased| leased.record.executions == 1));
}

#[tokio::test]
async fn a_lost_commit_answer_is_already_applied_when_it_is_sent_again() {
    let (_, inner, store) = faulty(Script::new().on("commit", 1, Fault::FailAfter));
    let key = enqueue(&store, task()).await.unwrap().key;
    let leased = store.lease(request(1, 1)).await.unwrap().remove(0);
    assert!(store.commit(vec![success(&leased)], None).await.is_err());
    let again = store.commit(vec![success(&leased)], None).await.unwrap();
    assert_eq!(again, [Committed::AlreadyApplied]);
    let record = inner.get_tasks(&[key]).await.unwrap().remove(0).unwrap();
    assert_eq!((record.state, record.attempts.len()), (TaskState::Succeeded, 1));
}

#[tokio::test]
async fn duplicated_calls_do_no_harm() {
    let (_, inner, store) = faulty(|_: &_| Fault::Duplicate);
    let enqueued = enqueue(&store, task().idempotency_key("once")).await.unwrap();
    assert!(enqueued.existing, "the second arrival finds the first");
    assert_eq!(total(&*inner).await, 1);
    let leased = store.lease(request(1, 5)).await.unwrap().remove(0);
    assert_eq!((leased.record.executions, leased.record.attempt), (1, 1));
    let renewed = store.renew(vec![Renewal::of(leased.lease.clone())]).await.unwrap();
    assert_eq!(renewed, [Renewed::Extended]);
    let answers = store.commit(vec![success(&leased)], None).await.unwrap();
    assert_eq!(answers, [Committed::AlreadyApplied]);
    store.confirm_stopped(vec![leased.lease.clone()]).await.unwrap();
    let record = inner.get_tasks(&[leased.lease.key]).await.unwrap().remove(0).unwrap();
    assert_eq!((record.state, record.executions, record.attempts.len()), (TaskState::Succeeded, 1, 1));
}

#[tokio::test]
async fn a_delayed_call_arrives_after_its_delay() {
    let script = Script::new().on("enqueue_batch", 1, Fault::Delay(seconds(5)));
    let (clock, inner, store) = faulty(script);
    let mut call = std::pin::pin!(store.enqueue_batch(vec![task()]));
    for _ in 0..5 {
        let polled = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        assert_eq!(total(&*inner).await, 0);
        clock.advance(seconds(1));
    }
    let answers = call.await.unwrap();
    assert!(answers[0].is_ok());
    assert_eq!(total(&*inner).await, 1);
}

#[tokio::test]
async fn a_stale_read_answers_as_the_same_read_did_before() {
    let script = Script::new()
        .on("get_tasks", 1, Fault::StaleRead)
        .on("get_tasks", 2, Fault::StaleRead)
        .on("counts", 2, Fault::StaleRead)
        .on("get_document", 2, Fault::StaleRead);
    let (_, _, store) = faulty(script);
    let key = enqueue(&store, task()).await.unwrap().key;
    let state = async || store.get_tasks(std::slice::from_ref(&key)).await.unwrap()[0].clone().unwrap().state;
    let document = DocumentKey::new(Namespace::default(), "kind", "id");
    assert_eq!(state().await, TaskState::Queued, "nothing was read before: this is the truth");
    assert_eq!((total(&store).await, store.get_document(&document).await.unwrap()), (1, None));
    store.lease(request(1, 1)).await.unwrap();
    enqueue(&store, task()).await.unwrap();
    store.put_document(&document, bytes::Bytes::new(), Expect::Absent, None).await.unwrap();
    assert_eq!(state().await, TaskState::Queued, "as it was");
    assert_eq!((total(&store).await, store.get_document(&document).await.unwrap()), (1, None));
    assert_eq!(state().await, TaskState::Running, "as it is");
    assert_eq!(total(&store).await, 2);
    assert!(store.get_document(&document).await.unwrap().is_some());
}

#[tokio::test]
async fn a_decision_made_on_a_stale_read_is_fenced_out() {
    let (clock, inner, store) = faulty(Script::new().on("get_tasks", 2, Fault::StaleRead));
    let key = enqueue(&store, task()).await.unwrap().key;
    let read = async || store.get_tasks(std::slice::from_ref(&key)).await.unwrap()[0].clone().unwrap();
    read().await;
    store.lease(request(1, 1)).await.unwrap();
    let stale = read().await;
    let cancel = decide(&stale, Command::Cancel, clock.now()).unwrap();
    assert_eq!(store.commit(vec![cancel], None).await.unwrap(), [Committed::Stale]);
    let record = inner.get_tasks(&[key]).await.unwrap().remove(0).unwrap();
    assert_eq!(record.state, TaskState::Running);
}

/// Retries a call until its answer arrives, as every caller of a store may.
async fn until_answered<T, F: Future<Output = Result<T>>>(mut call: impl FnMut() -> F) -> T {
    loop {
        match call().await {
            Err(Error::Unavailable { .. }) => {}
            answer => return answer.expect("nothing but the plan goes wrong"),
        }
    }
}

#[tokio::test]
async fn every_task_runs_exactly_once_over_a_store_that_loses_and_repeats_every_other_call() {
    for seed in 0..50 {
        let rates = Rates { fail_before: 20, fail_after: 20, duplicate: 20, ..Rates::default() };
        let (_, inner, store) = faulty(Seeded::new(seed, rates));
        for number in 0..20 {
            let task = || task().idempotency_key(format!("task-{number}"));
            until_answered(|| enqueue(&store, task())).await;
        }
        for token in 1.. {
            let leased = until_answered(|| store.lease(request(token, 3))).await;
            if leased.is_empty() {
                break;
            }
            let ends: Vec<_> = leased.iter().map(success).collect();
            let answers = until_answered(|| store.commit(ends.clone(), None)).await;
            assert!(!answers.contains(&Committed::Stale), "seed {seed}: {answers:?}");
        }
        let query = weaver_core::ports::TaskQuery::new(Namespace::default());
        let records = inner.list_tasks(query).await.unwrap().items;
        assert_eq!(records.len(), 20, "seed {seed}");
        for record in records {
            let ended = (record.state, record.executions, record.attempts.len());
            assert_eq!(ended, (TaskState::Succeeded, 1, 1), "seed {seed}");
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_faults() {
    let rates =
        Rates { fail_before: 10, stale_read: 10, delay: 30, delay_max: seconds(1), ..Rates::default() };
    let draw = |seed| {
        let plan = Seeded::new(seed, rates);
        let site = weaver_testkit::faults::CallSite { method: "lease", number: 1 };
        (0..200).map(|_| plan.fault(&site)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let none = draw(3).iter().filter(|fault| **fault == Fault::None).count();
    assert!((70..130).contains(&none), "half of 200 calls should be spared, not {none}");
}

const TEN_MINUTES_US: i64 = 600_000_000;

#[tokio::test]
async fn a_worker_whose_clock_is_ten_minutes_ahead_cannot_start_a_task_early() {
    let (clock, inner, _) = faulty(Script::new());
    let ahead = SkewedClock::new(Arc::new(clock.clone()), TEN_MINUTES_US);
    assert_eq!(ahead.now().since(clock.now()), seconds(600));
    let key = enqueue(&*inner, task().delay(seconds(300))).await.unwrap().key;
    assert_eq!(inner.lease(request(1, 1)).await.unwrap(), []);
    let record = inner.get_tasks(std::slice::from_ref(&key)).await.unwrap().remove(0).unwrap();
    let grant = Grant { worker: worker("w"), token: LeaseToken(2), ttl: seconds(30) };
    let early = decide(&record, Command::Lease(grant), ahead.now()).expect("it is due by the wrong clock");
    let answers = inner.commit(vec![early], None).await.unwrap();
    assert_eq!(answers, [Committed::Blocked(Blocked::NotDue)]);
    assert_eq!(inner.get_tasks(&[key]).await.unwrap().remove(0).unwrap(), record);
}

#[tokio::test]
async fn a_worker_whose_clock_is_ten_minutes_off_keeps_its_lease() {
    for offset_us in [TEN_MINUTES_US, -TEN_MINUTES_US] {
        let (clock, inner, _) = faulty(Script::new());
        let wrong = SkewedClock::new(Arc::new(clock.clone()), offset_us);
        enqueue(&*inner, task()).await.unwrap();
        let leased = inner.lease(request(1, 1)).await.unwrap().remove(0);
        assert_eq!(inner.overdue(10).await.unwrap(), [], "nothing is overdue by the store's clock");
        clock.advance(seconds(20));
        let renewed = inner.renew(vec![Renewal::of(leased.lease.clone())]).await.unwrap();
        assert_eq!(renewed, [Renewed::Extended]);
        clock.advance(seconds(20));
        assert_eq!(inner.overdue(10).await.unwrap(), []);
        let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::failed("later") };
        let end = decide(&leased.record, command, wrong.now()).unwrap();
        let answers = inner.commit(vec![end], None).await.unwrap();
        assert!(matches!(answers[0], Committed::Applied { .. }), "{answers:?}");
        let record = inner.get_tasks(&[leased.lease.key]).await.unwrap().remove(0).unwrap();
        assert_eq!(record.updated_at, clock.now(), "stamps are the store's");
        assert!(
            record.ready_at < clock.now().saturating_add(seconds(15)),
            "delays count from the store's time"
        );
    }
}

#[tokio::test]
async fn a_drifting_clock_gains_and_its_sleepers_wake_by_it() {
    let clock = ManualClock::default();
    let start = clock.now();
    let fast = SkewedClock::new(Arc::new(clock.clone()), 0).drifting(100_000);
    let mut sleep = fast.sleep_until(fast.monotonic().saturating_add(seconds(11)));
    let mut is_done =
        async || std::future::poll_fn(|context| Poll::Ready(sleep.as_mut().poll(context))).await.is_ready();
    clock.advance(Duration::from_millis(9_999));
    assert!(!is_done().await);
    clock.advance(Duration::from_millis(2));
    assert!(is_done().await);
    clock.advance(Duration::from_millis(99_999));
    assert_eq!(fast.now().since(start), Duration::from_millis(121_000));
}
