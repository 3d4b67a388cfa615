//! Actions are stored before they are performed; timing of the loop.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use weaver_merge::domain::Status;
use weaver_merge::plan::Policy;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::harness::{Harness, engine, forges};
use crate::hooked::HookedForges;

/// Polls a future of the in-memory store, which is ready at once.
fn at_once<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the in-memory store does not wait"),
    }
}

#[tokio::test]
async fn an_action_is_stored_before_it_is_performed() {
    let harness = Arc::new(Harness::new().await);
    harness.add("a", &[("a", "1\n")]).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    // At each effect, what a process started now would read.
    let observe = {
        let (harness, seen) = (Arc::downgrade(&harness), Arc::clone(&seen));
        move |effect: &'static str| {
            let harness = harness.upgrade().unwrap();
            let entry = at_once(harness.engine.get(&harness.queue)).unwrap().queue.entries.first().cloned();
            seen.lock().push((effect, entry));
        }
    };
    let plan = {
        let observe = observe.clone();
        move |site: &CallSite| {
            if site.method == "enqueue_batch" {
                observe("enqueue");
            }
            Fault::None
        }
    };
    let clock = Arc::new(harness.tasks.clock().clone());
    let store = Arc::new(FaultyStore::new(harness.tasks.store(), clock, plan));
    let forges = Arc::new(HookedForges { forges: forges(), hook: Arc::new(observe) });
    harness.settle_with(&engine(store, forges, &harness.tasks, Policy::default())).await;
    let seen = std::mem::take(&mut *seen.lock());
    let stored = |effect: &str| {
        let entry = seen.iter().find(|(name, _)| *name == effect).and_then(|(_, entry)| entry.clone());
        entry.unwrap_or_else(|| panic!("{effect}: {seen:?}"))
    };
    let build = stored("merge");
    assert_eq!(build.status, Status::Updating);
    assert!(build.candidate.is_some_and(|candidate| candidate.merged.is_none()));
    let start = stored("enqueue");
    assert_eq!((start.status, start.checks[0].runs.len()), (Status::Checking, 1));
    let land = stored("land");
    assert_eq!(land.status, Status::Ready);
    assert_eq!(land.merged().unwrap().commit, harness.repo.tip("main"));
    harness.prove(&[]).await;
}

/// Runs all tasks without advancing the clock.
async fn turn() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_loop_reconciles_every_30_seconds_and_on_a_change_and_waits_after_an_error() {
    let harness = Harness::new().await;
    let rounds = Arc::new(AtomicU64::new(0));
    let is_down = Arc::new(AtomicBool::new(true));
    let plan = {
        let (rounds, is_down) = (Arc::clone(&rounds), Arc::clone(&is_down));
        move |site: &CallSite| {
            let is_round = site.method == "list_documents";
            if is_round {
                rounds.fetch_add(1, Ordering::SeqCst);
            }
            if is_down.load(Ordering::SeqCst) && is_round { Fault::FailBefore } else { Fault::None }
        }
    };
    let clock = harness.tasks.clock().clone();
    let store = Arc::new(FaultyStore::new(harness.tasks.store(), Arc::new(clock.clone()), plan));
    let looping = engine(store, forges(), &harness.tasks, Policy::default());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let drive = async {
        turn().await;
        let first = rounds.load(Ordering::SeqCst);
        assert!(first <= 2, "an error does not cause a busy loop: {first}");
        clock.advance(Duration::from_secs(29));
        turn().await;
        assert_eq!(rounds.load(Ordering::SeqCst), first, "not before the interval");
        clock.advance(Duration::from_secs(1));
        turn().await;
        let second = rounds.load(Ordering::SeqCst);
        assert!(second > first, "it reconciles again");
        is_down.store(false, Ordering::SeqCst);
        looping.pause(&harness.queue, "lunch").await.unwrap();
        turn().await;
        assert!(rounds.load(Ordering::SeqCst) > second, "at once, on a command");
        stop.send(()).unwrap();
    };
    tokio::join!(looping.run(async { drop(stopped.await) }), drive);
    assert!(harness.state().await.paused.is_some());
    harness.prove(&[]).await;
}
