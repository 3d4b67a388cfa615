//! Starting handlers: ready at once, pending or blocking, none delays another.

use std::sync::{Arc, Barrier};

use tokio::sync::Semaphore;
use weaver_core::prelude::*;
use weaver_runtime::{Ctx, Registry, TaskError};

use crate::harness::{WorkerHarness, harness, settle};

async fn enqueue_together(harness: &WorkerHarness, names: &[&'static str]) -> Vec<TaskKey> {
    let tasks = names.iter().map(|name| NewTask::new(*name)).collect();
    let enqueued = harness.store.enqueue_batch(tasks).await.unwrap();
    enqueued.into_iter().map(|enqueued| enqueued.unwrap().key).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_block_at_once_run_beside_each_other() {
    let harness = harness();
    // Neither gets past the barrier alone.
    let (both, passed) = (Barrier::new(2), Arc::new(Semaphore::new(0)));
    let pass = Arc::clone(&passed);
    let registry = Registry::new().handle("meet", move |_: (), _: Ctx| {
        both.wait();
        pass.add_permits(1);
        std::future::ready(Ok::<(), TaskError>(()))
    });
    let _running = harness.work(registry.unwrap());
    enqueue_together(&harness, &["meet", "meet"]).await;
    let _passed = passed.acquire_many(2).await.unwrap();
}

#[tokio::test]
async fn handlers_that_wait_and_handlers_that_do_not_begin_together_and_all_end() {
    let harness = harness();
    let registry = Registry::new().handle("ready", |_: (), _: Ctx| async { Ok(()) }).unwrap();
    let registry = registry.handle("waits", |_: (), _: Ctx| async {
        settle().await;
        Ok(())
    });
    let _running = harness.work(registry.unwrap());
    for names in [["ready"; 8], ["waits"; 8], ["ready"; 8], ["waits"; 8]] {
        for key in enqueue_together(&harness, &names).await {
            harness.until(&key, TaskState::Succeeded).await;
        }
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

#[tokio::test]
async fn a_future_that_panics_while_it_is_dropped_does_not_harm_other_handlers() {
    let harness = harness();
    let registry = Registry::new().handle("ready", |_: (), _: Ctx| async { Ok(()) }).unwrap();
    let registry = registry.handle("bomb", |_: (), _: Ctx| {
        let bomb = Bomb;
        async move {
            let _bomb = bomb;
            Ok(())
        }
    });
    let _running = harness.work(registry.unwrap());
    let keys = enqueue_together(&harness, &["ready", "bomb", "ready"]).await;
    harness.until(&keys[0], TaskState::Succeeded).await;
    harness.until(&keys[1], TaskState::RetryScheduled).await;
    harness.until(&keys[2], TaskState::Succeeded).await;
}
