//! The in-memory store walks beside the reference model.

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::{Clock, ManualClock};
use weaver_core::ports::Store;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::time::Timestamp;
use weaver_testkit::bed::TestStore;
use weaver_testkit::model::run_cases;

struct Memory {
    clock: ManualClock,
    queue: Arc<InMemoryQueue>,
}

impl Memory {
    fn open() -> Box<dyn TestStore> {
        let clock = ManualClock::default();
        let queue = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        Box::new(Self { clock, queue })
    }
}

#[async_trait::async_trait]
impl TestStore for Memory {
    fn store(&self) -> Arc<dyn Store> {
        self.queue.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[test]
fn the_in_memory_store_and_the_reference_model_agree_step_by_step() {
    run_cases("the in-memory store", || async { Memory::open() }, 256, 60);
}
