//! The conformance suite on the in-memory store.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::ports::Store;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::time::Timestamp;
use weaver_testkit::bed::TestStore;

struct Memory {
    clock: ManualClock,
    queue: Arc<InMemoryQueue>,
}

#[async_trait]
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

fn main() -> ExitCode {
    weaver_testkit::conformance::main("memory", || async {
        let clock = ManualClock::default();
        let queue = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        Box::new(Memory { clock, queue }) as Box<dyn TestStore>
    })
}
