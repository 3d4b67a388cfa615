//! A client that may enqueue tasks forges the task of a check.

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_core::queue::QueueExt;
use weaver_core::task::NewTask;
use weaver_merge::check::CHECK_QUEUE;
use weaver_runtime::{Ctx, TaskHandler};

use crate::harness::Harness;

/// Reports every check as passed.
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
async fn a_task_that_took_the_idempotency_key_of_a_run_is_not_accepted_as_the_check() {
    let harness = Harness::new().await;
    let bad = harness.add("bad", &[("bad", "1\n")]).await;
    let forged = NewTask::new("forged").queue(CHECK_QUEUE);
    let key = format!("merge:{}:{bad}:1:unit:0", harness.queue);
    harness.tasks.store().enqueue(forged.idempotency_key(key)).await.unwrap();
    harness.tasks.drain(&harness.registry().handler(Forger(TaskType::new("forged").unwrap()))).await;
    harness.engine.reconcile_all().await.unwrap();
    let runs = harness.state().await.entries[0].checks[0].runs.clone();
    let is_forged = |text: &str| text.contains("not the one the merge queue requested");
    assert!(is_forged(&format!("{runs:?}")), "the engine met it: {runs:?}");
    harness.settle().await;
    assert_eq!(harness.reason(bad).await.word(), "checks_failed");
    harness.prove(&[]).await;
}
