//! Assigned tasks without a leader: the maintenance of any worker releases them (G3).
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::{Epoch, LeaseToken, TaskKey};
use weaver_core::lease::LeaseRequest;
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::ports::{Admin, Expect, QueueSettings, Tasks};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::queue::{Queue, QueueExt};
use weaver_core::task::{Dispatch, NewTask, TaskState};
use weaver_core::time::Timestamp;
use weaver_runtime::{LocalSource, WorkSource};

const SECOND: Duration = Duration::from_secs(1);

struct Place {
    clock: ManualClock,
    store: Arc<InMemoryQueue>,
    source: LocalSource,
}

impl Place {
    async fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000));
        let store = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        let settings = QueueSettings { dispatch: Dispatch::Assign, ..QueueSettings::default() };
        let (namespace, queue) = (Namespace::default(), QueueName::default());
        store.put_queue(&namespace, &queue, settings, Expect::Anything).await.unwrap();
        let source = LocalSource::new(Arc::clone(&store) as _);
        Self { clock, store, source }
    }

    async fn maintain_for(&self, seconds: u32) {
        for _ in 0..seconds {
            self.clock.advance(SECOND);
            self.source.maintain(self.clock.monotonic()).await.unwrap();
        }
    }

    async fn state(&self, key: &TaskKey) -> TaskState {
        self.store.get_tasks(std::slice::from_ref(key)).await.unwrap()[0].as_ref().unwrap().state
    }

    async fn lease(&self, token: u128) -> usize {
        let worker = WorkerId::try_from("puller").unwrap();
        let request =
            LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
        self.source.lease(request).await.unwrap().len()
    }
}

#[tokio::test]
async fn workers_pull_from_assign_queues_after_a_minute_without_a_leader() {
    let place = Place::new().await;
    place.store.enqueue(NewTask::new("t")).await.unwrap();
    place.maintain_for(55).await;
    assert_eq!(place.lease(1).await, 0);
    place.maintain_for(15).await;
    assert_eq!(place.lease(2).await, 1);
}

#[tokio::test]
async fn what_a_worker_that_left_had_is_released_and_pulled() {
    let place = Place::new().await;
    let key = place.store.enqueue(NewTask::new("t")).await.unwrap().key;
    let record = place.store.get_tasks(std::slice::from_ref(&key)).await.unwrap().remove(0).unwrap();
    let command = Command::Assign { worker: WorkerId::try_from("gone").unwrap(), epoch: Epoch(1) };
    let transition = decide(&record, command, place.clock.now()).unwrap();
    let _ = place.store.commit(vec![transition], None).await.unwrap();
    place.maintain_for(100).await;
    assert_eq!(place.state(&key).await, TaskState::Assigned, "a minute without a leader, then a minute more");
    place.maintain_for(40).await;
    assert_eq!(place.state(&key).await, TaskState::RetryScheduled);
    assert_eq!(place.lease(1).await, 1);
}
