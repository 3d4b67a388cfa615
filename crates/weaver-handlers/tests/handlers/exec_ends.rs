//! However a command ends, nothing of it is left: on cancel, timeout, lost lease and shutdown.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weaver_core::prelude::*;
use weaver_core::task::Cause;
use weaver_handlers::ExecPolicy;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::rig::{Dir, Rig, is_alive, pass_until, until};

/// A shell with a child in its group, one in a session of its own, and one that lost its parent as well. It
/// tells their numbers, and waits.
const FAMILY: &str = "sleep 1000 & a=$!
    setsid sleep 1000 & b=$!
    c=$(setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!')
    echo $$ $a $b $c > begun; wait";

/// The same, and every shell of it ignores SIGTERM.
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
async fn a_cancelled_command_is_gone_with_all_its_children_wherever_they_went() {
    let (rig, dir) = (Rig::new(), Dir::new());
    let begun = dir.pipe("begun");
    let _running = rig.work(rig.exec(policy(&dir, FAMILY)));
    let key = rig.enqueue(task()).await;
    let family = begun.read_pids().await;
    assert_eq!(family.len(), 4);
    assert!(family.iter().all(|pid| is_alive(*pid)), "{family:?}");
    rig.store.cancel(&key).await.unwrap();
    // One heartbeat.
    rig.clock.advance(Duration::from_secs(10));
    // No more time passes: SIGTERM is enough for these.
    until("the family is gone", || none_alive(&family)).await;
    let record = rig.until(&key, TaskState::Cancelled).await;
    assert_eq!(record.failures, 0);
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_after_the_grace() {
    let (rig, dir) = (Rig::new(), Dir::new());
    let begun = dir.pipe("begun");
    let _running = rig.work(rig.exec(policy(&dir, STUBBORN)));
    let key = rig.enqueue(task()).await;
    let family = begun.read_pids().await;
    rig.store.cancel(&key).await.unwrap();
    rig.clock.advance(Duration::from_secs(10));
    pass_until(&rig.clock, "the family is gone", || none_alive(&family)).await;
}

#[tokio::test]
async fn a_command_is_asked_to_end_before_it_is_killed() {
    let (rig, dir) = (Rig::new(), Dir::new());
    let (begun, ended) = (dir.pipe("begun"), dir.pipe("ended"));
    let script =
        "trap 'echo in order > ended; exit 0' TERM; echo $$ > begun; while true; do sleep 1000 & wait; done";
    let _running = rig.work(rig.exec(policy(&dir, script)));
    let key = rig.enqueue(task()).await;
    begun.read().await;
    rig.store.cancel(&key).await.unwrap();
    rig.clock.advance(Duration::from_secs(10));
    assert_eq!(ended.read().await, "in order\n");
}

#[tokio::test]
async fn a_command_that_was_stopped_can_still_end_in_order() {
    let (rig, dir) = (Rig::new(), Dir::new());
    let (begun, ended) = (dir.pipe("begun"), dir.pipe("ended"));
    let script = "trap 'echo in order > ended; exit 0' TERM; echo $$ > begun; kill -STOP $$; exit 1";
    let _running = rig.work(rig.exec(policy(&dir, script)));
    let key = rig.enqueue(task()).await;
    let pid = begun.read_pids().await[0];
    let stat = format!("/proc/{pid}/stat");
    until("it is stopped", || std::fs::read_to_string(&stat).unwrap().contains(") T ")).await;
    rig.store.cancel(&key).await.unwrap();
    rig.clock.advance(Duration::from_secs(10));
    assert_eq!(ended.read().await, "in order\n");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_timed_out_and_gone() {
    for script in [FAMILY, STUBBORN] {
        let (rig, dir) = (Rig::new(), Dir::new());
        let begun = dir.pipe("begun");
        let _running = rig.work(rig.exec(policy(&dir, script)));
        let key = rig.enqueue(task().timeout(Duration::from_secs(20)).max_attempts(1)).await;
        let family = begun.read_pids().await;
        assert_eq!(rig.record(&key).await.state, TaskState::Running);
        pass_until(&rig.clock, "the family is gone", || none_alive(&family)).await;
        let record = rig.until(&key, TaskState::Dead).await;
        assert_eq!(record.cause, Some(Cause::TimedOut));
    }
}

#[tokio::test]
async fn a_command_whose_lease_cannot_be_renewed_is_gone_before_the_lease_ends() {
    let (rig, dir) = (Rig::new(), Dir::new());
    let begun = dir.pipe("begun");
    let plan = |call: &CallSite| if call.method == "renew" { Fault::FailBefore } else { Fault::None };
    let cut_off = Arc::new(FaultyStore::new(Arc::clone(&rig.store), rig.clock(), plan));
    let _running = rig.start(rig.builder_on(cut_off, rig.exec(policy(&dir, STUBBORN))));
    let key = rig.enqueue(task()).await;
    let family = begun.read_pids().await;
    let leased_at = rig.clock.now();
    // Nine tenths of the lease, and it is dropped.
    for _ in 0..28 {
        rig.clock.advance(Duration::from_secs(1));
        crate::rig::settle().await;
    }
    until("the family is gone", || none_alive(&family)).await;
    assert!(rig.clock.now().since(leased_at) < Duration::from_secs(30));
    assert_eq!(rig.record(&key).await.losses, 0);
}

#[tokio::test]
async fn a_shutdown_ends_commands_and_gives_their_tasks_back_without_charge() {
    let (rig, dir) = (Rig::new(), Dir::new());
    let begun = dir.pipe("begun");
    let running = rig.work(rig.exec(policy(&dir, FAMILY)));
    let key = rig.enqueue(task()).await;
    let family = begun.read_pids().await;
    running.shutdown.ask();
    pass_until(&rig.clock, "the worker stops", || running.worker.is_finished()).await;
    assert_eq!(running.worker.await.unwrap().released, 1);
    assert!(none_alive(&family), "gone before the worker has stopped");
    let record = rig.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Released)));
    assert_eq!((record.failures, record.losses), (0, 0));
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let (rig, dir) = (Rig::new(), Dir::new());
    let begun = dir.pipe("begun");
    // The first keeps the output open, and the second is nobody's child any more.
    let script = "sleep 1000 & a=$!; b=$(setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!')
        echo $a $b > begun; echo done";
    let _running = rig.work(rig.exec(policy(&dir, script)));
    let key = rig.enqueue(task()).await;
    let left = begun.read_pids().await;
    assert_eq!(left.len(), 2);
    let record = rig.until(&key, TaskState::Succeeded).await;
    assert_eq!(crate::rig::result(&record)["output"], "done\n");
    assert!(none_alive(&left), "gone before the task has ended");
}
