//! Somebody who may enqueue tasks, and would like theirs to be taken for a check.

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_core::queue::QueueExt;
use weaver_core::task::NewTask;
use weaver_merge::check::CHECK_QUEUE;
use weaver_runtime::{Ctx, TaskHandler};

use crate::bench::Bench;

/// Says that everything has passed.
struct Forger(TaskType);

#[async_trait]
impl TaskHandler for Forger {
    fn task_type(&self) -> &TaskType {
        &self.0
    }

    async fn execute(&self, _payload: Bytes, _ctx: Ctx) -> Outcome {
        Outcome::Succeeded { result: Some(Bytes::from_static(b"{\"end\":\"passed\",\"log_hash\":\"\"}")) }
    }
}

#[tokio::test]
async fn a_task_that_took_the_key_of_a_run_is_not_taken_for_the_check() {
    let bench = Bench::new().await;
    let bad = bench.add("bad", &[("bad", "1\n")]).await;
    let forged = NewTask::new("forged").queue(CHECK_QUEUE);
    let key = format!("merge:{}:{bad}:1:unit:0", bench.queue);
    bench.tasks.store().enqueue(forged.idempotency_key(key)).await.unwrap();
    bench.tasks.drain(&bench.registry().handler(Forger(TaskType::new("forged").unwrap()))).await;
    bench.engine.reconcile_all().await.unwrap();
    let runs = bench.state().await.entries[0].checks[0].runs.clone();
    let is_forged = |text: &str| text.contains("not the one that was asked for");
    assert!(is_forged(&format!("{runs:?}")), "the engine met it: {runs:?}");
    bench.settle().await;
    assert_eq!(bench.reason(bad).await.word(), "checks_failed");
    bench.prove(&[]).await;
}
