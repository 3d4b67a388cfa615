//! However a command ends, all its processes end: on cancel, timeout, lost lease and shutdown.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weaver_core::prelude::*;
use weaver_core::task::Cause;
use weaver_handlers::ExecPolicy;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::harness::{Dir, Harness, is_alive, pass_until, until};

/// A shell with a child in its process group, one in a session of its own, and an orphan. It reports their
/// process ids, and waits.
const FAMILY: &str = "sleep 1000 & a=$!
    setsid sleep 1000 & b=$!
    c=$(setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!')
    echo $$ $a $b $c > begun; wait";

/// A shell and a child that both ignore SIGTERM.
const STUBBORN: &str = "trap '' TERM; (trap '' TERM; sleep 1000; sleep 1000) & echo $$ $! > begun
    while true; do sleep 1000; done";

fn policy(dir: &Dir, script: &str) -> ExecPolicy {
    let mut policy = ExecPolicy::new(dir.path()).unconfined().allow("sh", "/bin/sh", ["-c", script]);
    policy.inherit_env.insert("PATH".to_owned());
    policy
}

fn task() -> NewTask {
    NewTask::new("exec").json(&json!({"command": "sh"})).unwrap()
}

fn none_alive(pids: &[u32]) -> bool {
    !pids.iter().any(|pid| is_alive(*pid))
}

#[tokio::test]
async fn a_cancelled_command_ends_with_all_its_descendants() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let begun = dir.pipe("begun");
    let _running = harness.work(harness.exec(policy(&dir, FAMILY)));
    let key = harness.enqueue(task()).await;
    let family = begun.read_pids().await;
    assert_eq!(family.len(), 4);
    assert!(family.iter().all(|pid| is_alive(*pid)), "{family:?}");
    harness.store.cancel(&key).await.unwrap();
    // One heartbeat.
    harness.clock.advance(Duration::from_secs(10));
    // The clock does not advance: SIGTERM is enough for these.
    until("all processes have ended", || none_alive(&family)).await;
    let record = harness.until(&key, TaskState::Cancelled).await;
    assert_eq!(record.failures, 0);
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_after_the_grace() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let begun = dir.pipe("begun");
    let _running = harness.work(harness.exec(policy(&dir, STUBBORN)));
    let key = harness.enqueue(task()).await;
    let family = begun.read_pids().await;
    harness.store.cancel(&key).await.unwrap();
    harness.clock.advance(Duration::from_secs(10));
    pass_until(&harness.clock, "all processes have ended", || none_alive(&family)).await;
}

#[tokio::test]
async fn a_command_gets_sigterm_before_sigkill() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let (begun, ended) = (dir.pipe("begun"), dir.pipe("ended"));
    let script =
        "trap 'echo in order > ended; exit 0' TERM; echo $$ > begun; while true; do sleep 1000 & wait; done";
    let _running = harness.work(harness.exec(policy(&dir, script)));
    let key = harness.enqueue(task()).await;
    begun.read().await;
    harness.store.cancel(&key).await.unwrap();
    harness.clock.advance(Duration::from_secs(10));
    assert_eq!(ended.read().await, "in order\n");
}

#[tokio::test]
async fn a_command_in_sigstop_still_ends_gracefully() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let (begun, ended) = (dir.pipe("begun"), dir.pipe("ended"));
    let script = "trap 'echo in order > ended; exit 0' TERM; echo $$ > begun; kill -STOP $$; exit 1";
    let _running = harness.work(harness.exec(policy(&dir, script)));
    let key = harness.enqueue(task()).await;
    let pid = begun.read_pids().await[0];
    let stat = format!("/proc/{pid}/stat");
    until("it is stopped", || std::fs::read_to_string(&stat).unwrap().contains(") T ")).await;
    harness.store.cancel(&key).await.unwrap();
    harness.clock.advance(Duration::from_secs(10));
    assert_eq!(ended.read().await, "in order\n");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_timed_out_and_killed() {
    for script in [FAMILY, STUBBORN] {
        let (harness, dir) = (Harness::new(), Dir::new());
        let begun = dir.pipe("begun");
        let _running = harness.work(harness.exec(policy(&dir, script)));
        let key = harness.enqueue(task().timeout(Duration::from_secs(20)).max_attempts(1)).await;
        let family = begun.read_pids().await;
        assert_eq!(harness.record(&key).await.state, TaskState::Running);
        pass_until(&harness.clock, "all processes have ended", || none_alive(&family)).await;
        let record = harness.until(&key, TaskState::Dead).await;
        assert_eq!(record.cause, Some(Cause::TimedOut));
    }
}

#[tokio::test]
async fn a_command_whose_lease_cannot_be_renewed_ends_before_the_lease_expires() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let begun = dir.pipe("begun");
    let plan = |call: &CallSite| if call.method == "renew" { Fault::FailBefore } else { Fault::None };
    let cut_off = Arc::new(FaultyStore::new(Arc::clone(&harness.store), harness.clock(), plan));
    let _running = harness.start(harness.builder_on(cut_off, harness.exec(policy(&dir, STUBBORN))));
    let key = harness.enqueue(task()).await;
    let family = begun.read_pids().await;
    let leased_at = harness.clock.now();
    // The worker drops the handler at nine tenths of the lease.
    for _ in 0..28 {
        harness.clock.advance(Duration::from_secs(1));
        crate::harness::settle().await;
    }
    until("all processes have ended", || none_alive(&family)).await;
    assert!(harness.clock.now().since(leased_at) < Duration::from_secs(30));
    assert_eq!(harness.record(&key).await.losses, 0);
}

#[tokio::test]
async fn a_shutdown_ends_commands_and_releases_their_tasks() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let begun = dir.pipe("begun");
    let running = harness.work(harness.exec(policy(&dir, FAMILY)));
    let key = harness.enqueue(task()).await;
    let family = begun.read_pids().await;
    running.shutdown.request();
    pass_until(&harness.clock, "the worker stops", || running.worker.is_finished()).await;
    assert_eq!(running.worker.await.unwrap().released, 1);
    assert!(none_alive(&family), "ended before the worker has stopped");
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Released)));
    assert_eq!((record.failures, record.losses), (0, 0));
}

#[tokio::test]
async fn background_processes_of_a_command_end_with_it() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let begun = dir.pipe("begun");
    // The first keeps the output open, and the second is an orphan.
    let script = "sleep 1000 & a=$!; b=$(setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!')
        echo $a $b > begun; echo done";
    let _running = harness.work(harness.exec(policy(&dir, script)));
    let key = harness.enqueue(task()).await;
    let left = begun.read_pids().await;
    assert_eq!(left.len(), 2);
    let record = harness.until(&key, TaskState::Succeeded).await;
    assert_eq!(crate::harness::result(&record)["output"], "done\n");
    assert!(none_alive(&left), "ended before the task has");
}
