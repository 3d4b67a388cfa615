//! The seed's trait `TaskHandler`: raw payload in, outcome out.

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_core::task::{ContentType, NewTask};
use weaver_runtime::testing::run_inline;
use weaver_runtime::{Ctx, Registry, TaskHandler};

struct Reverse(TaskType);

#[async_trait]
impl TaskHandler for Reverse {
    fn task_type(&self) -> &TaskType {
        &self.0
    }

    async fn execute(&self, payload: Bytes, _ctx: Ctx) -> Outcome {
        let reversed: Bytes = payload.iter().rev().copied().collect();
        Outcome::Succeeded { result: Some(reversed) }
    }
}

#[tokio::test]
async fn a_task_handler_is_found_by_its_type_and_gets_the_payload_as_it_is() {
    let registry = Registry::new().handler(Reverse(TaskType::new("reverse").unwrap()));
    let content_type = ContentType::other("application/octet-stream");
    let task = NewTask::new("reverse").payload(vec![1, 2, 255], content_type);
    let outcome = run_inline(&registry, task).await;
    assert_eq!(outcome, Outcome::Succeeded { result: Some(Bytes::from_static(&[255, 2, 1])) });
}
