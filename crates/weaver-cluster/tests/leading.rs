//! Nodes over one store in memory, with a clock that the tests move.
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weaver_cluster::{ClusterNode, NodeOptions};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::cluster::{ClusterSettings, leader_key, node_key};
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::LeaseRequest;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::ports::{
    Admin, Beat, Directive, Documents, Expect, QueueSettings, RunnerKey, Runners, Tasks,
};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::queue::start::start_assigned;
use weaver_core::queue::{Queue, QueueExt};
use weaver_core::task::{Dispatch, NewTask, TaskRecord, TaskState};
use weaver_core::time::Timestamp;

const SECOND: Duration = Duration::from_secs(1);

struct Cluster {
    clock: ManualClock,
    store: Arc<InMemoryQueue>,
}

impl Cluster {
    async fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000));
        let store = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
        let settings = QueueSettings { dispatch: Dispatch::Assign, ..QueueSettings::default() };
        let (namespace, queue) = (Namespace::default(), QueueName::default());
        store.put_queue(&namespace, &queue, settings, Expect::Anything).await.unwrap();
        Self { clock, store }
    }

    fn node(&self, name: &str, host: &str) -> ClusterNode {
        let options = NodeOptions {
            name: name.to_owned(),
            host: host.to_owned(),
            address: None,
            own_workers: BTreeSet::new(),
            heartbeat_every: SECOND,
            settings: ClusterSettings::default(),
        };
        ClusterNode::new(Arc::clone(&self.store) as _, Arc::new(self.clock.clone()), options)
    }

    async fn heartbeat(&self, worker: &str, running: u32) {
        let beat = Beat {
            key: key(worker),
            project_root: None,
            started_at: Timestamp::MIN,
            queues: vec![QueueName::default()],
            types: None,
            capacity: 4,
            running,
            draining: false,
            every: Some(SECOND),
        };
        self.store.beat(vec![beat]).await.unwrap();
    }

    async fn enqueue(&self) -> TaskKey {
        self.store.enqueue(NewTask::new("t")).await.unwrap().key
    }

    async fn record(&self, key: &TaskKey) -> TaskRecord {
        self.store.get_tasks(std::slice::from_ref(key)).await.unwrap().remove(0).unwrap()
    }

    async fn assigned_to(&self, key: &TaskKey) -> Option<String> {
        let record = self.record(key).await;
        (record.state == TaskState::Assigned).then(|| record.assignment.unwrap().worker.to_string())
    }

    /// So many seconds pass, in each of which workers send heartbeats and nodes tick.
    async fn pass(&self, seconds: u32, workers: &[&str], nodes: &mut [&mut ClusterNode]) {
        for _ in 0..seconds {
            self.clock.advance(SECOND);
            for worker in workers {
                self.heartbeat(worker, 0).await;
            }
            for node in &mut *nodes {
                node.tick().await.unwrap();
            }
        }
    }
}

fn key(worker: &str) -> RunnerKey {
    RunnerKey { namespace: Namespace::default(), runner_id: WorkerId::try_from(worker).unwrap() }
}

#[tokio::test]
async fn the_leader_assigns_due_tasks_to_the_workers_with_the_fewest_held() {
    let cluster = Cluster::new().await;
    let mut node = cluster.node("n1", "h1");
    cluster.heartbeat("w1", 2).await;
    cluster.heartbeat("w2", 0).await;
    let all = [cluster.enqueue().await, cluster.enqueue().await, cluster.enqueue().await];
    node.tick().await.unwrap();
    assert!(node.is_leading());
    let mut to = Vec::new();
    for key in &all {
        to.push(cluster.assigned_to(key).await.unwrap());
    }
    assert_eq!(to, ["w2", "w2", "w1"]);
    let document = cluster.store.get_document(&leader_key()).await.unwrap().unwrap();
    assert_eq!(cluster.record(&all[0]).await.assignment.unwrap().epoch.0, document.version.0);
}

#[tokio::test]
async fn a_worker_gets_no_more_than_it_has_room_for_and_the_rest_waits() {
    let cluster = Cluster::new().await;
    let mut node = cluster.node("n1", "h1");
    cluster.heartbeat("w1", 3).await;
    let (one, two) = (cluster.enqueue().await, cluster.enqueue().await);
    node.tick().await.unwrap();
    assert_eq!(cluster.assigned_to(&one).await.as_deref(), Some("w1"));
    assert_eq!(cluster.record(&two).await.state, TaskState::Queued);
}

#[tokio::test]
async fn another_node_takes_over_after_ten_seconds_of_silence_and_not_before() {
    let cluster = Cluster::new().await;
    let (mut first, mut second) = (cluster.node("n1", "h1"), cluster.node("n2", "h2"));
    cluster.pass(1, &[], &mut [&mut first, &mut second]).await;
    assert!(first.is_leading() && !second.is_leading());
    // The first one stands still.
    cluster.pass(9, &[], &mut [&mut second]).await;
    assert!(!second.is_leading());
    cluster.pass(1, &[], &mut [&mut second]).await;
    assert!(second.is_leading());
    assert!(!first.is_leading(), "its term could not be confirmed: it knows by its own clock");
    first.tick().await.unwrap();
    assert!(!first.is_leading());
}

#[tokio::test]
async fn of_two_nodes_the_one_on_another_host_takes_over() {
    let cluster = Cluster::new().await;
    let mut leader = cluster.node("n1", "h1");
    let (mut same, mut other) = (cluster.node("n2", "h1"), cluster.node("n3", "h2"));
    cluster.pass(1, &[], &mut [&mut leader, &mut same, &mut other]).await;
    cluster.pass(10, &[], &mut [&mut same, &mut other]).await;
    assert!(other.is_leading() && !same.is_leading());
}

#[tokio::test]
async fn a_node_that_stops_lets_another_lead_at_once() {
    let cluster = Cluster::new().await;
    let (mut first, mut second) = (cluster.node("n1", "h1"), cluster.node("n2", "h2"));
    cluster.pass(1, &[], &mut [&mut first, &mut second]).await;
    first.run(std::future::ready(())).await;
    assert_eq!(cluster.store.get_document(&node_key("n1")).await.unwrap(), None, "it leaves nothing behind");
    cluster.pass(1, &[], &mut [&mut second]).await;
    assert!(second.is_leading());
}

#[tokio::test]
async fn a_new_leader_forgets_nodes_that_were_killed_a_day_ago() {
    let cluster = Cluster::new().await;
    let mut killed = cluster.node("n1", "h1");
    killed.tick().await.unwrap();
    drop(killed);
    cluster.clock.advance(25 * 3600 * SECOND);
    let mut node = cluster.node("n2", "h2");
    cluster.pass(12, &[], &mut [&mut node]).await;
    assert!(node.is_leading());
    assert_eq!(cluster.store.get_document(&node_key("n1")).await.unwrap(), None);
}

#[tokio::test]
async fn what_a_silent_worker_did_not_start_goes_to_another_after_a_minute_as_a_loss() {
    let cluster = Cluster::new().await;
    let mut node = cluster.node("n1", "h1");
    cluster.heartbeat("w1", 0).await;
    let task = cluster.enqueue().await;
    node.tick().await.unwrap();
    assert_eq!(cluster.assigned_to(&task).await.as_deref(), Some("w1"));
    cluster.pass(59, &["w2"], &mut [&mut node]).await;
    assert_eq!(cluster.assigned_to(&task).await.as_deref(), Some("w1"));
    cluster.pass(3, &["w2"], &mut [&mut node]).await;
    assert_eq!(cluster.assigned_to(&task).await.as_deref(), Some("w2"));
    let record = cluster.record(&task).await;
    assert_eq!((record.attempt, record.losses, record.executions), (2, 1, 0));
}

#[tokio::test]
async fn what_a_live_worker_does_not_start_is_taken_back_after_five_minutes_without_a_charge() {
    let cluster = Cluster::new().await;
    let mut node = cluster.node("n1", "h1");
    cluster.heartbeat("w1", 0).await;
    let task = cluster.enqueue().await;
    node.tick().await.unwrap();
    cluster.pass(299, &["w1", "w2"], &mut [&mut node]).await;
    assert_eq!(cluster.assigned_to(&task).await.as_deref(), Some("w1"));
    cluster.pass(3, &["w1", "w2"], &mut [&mut node]).await;
    assert_eq!(cluster.assigned_to(&task).await.as_deref(), Some("w2"));
    assert_eq!(cluster.record(&task).await.losses, 0);
}

#[tokio::test]
async fn a_detached_worker_gets_nothing_and_what_it_had_goes_to_another_without_a_charge() {
    let cluster = Cluster::new().await;
    let mut node = cluster.node("n1", "h1");
    cluster.heartbeat("w1", 0).await;
    let before = cluster.enqueue().await;
    node.tick().await.unwrap();
    cluster.store.direct(&key("w1"), Directive::Detach).await.unwrap();
    let after = cluster.enqueue().await;
    cluster.pass(1, &["w1"], &mut [&mut node]).await;
    assert_eq!(cluster.assigned_to(&after).await, None);
    cluster.pass(61, &["w1", "w2"], &mut [&mut node]).await;
    assert_eq!(cluster.assigned_to(&before).await.as_deref(), Some("w2"));
    assert_eq!(cluster.record(&before).await.losses, 0);
    assert_eq!(cluster.assigned_to(&after).await.as_deref(), Some("w2"));
}

#[tokio::test]
async fn a_new_leader_declares_no_worker_dead_before_it_has_watched_it() {
    let cluster = Cluster::new().await;
    let (mut first, mut second) = (cluster.node("n1", "h1"), cluster.node("n2", "h2"));
    cluster.heartbeat("w1", 0).await;
    let task = cluster.enqueue().await;
    cluster.pass(1, &["w1"], &mut [&mut first, &mut second]).await;
    // Leader and worker fall silent together.
    cluster.pass(11, &[], &mut [&mut second]).await;
    assert!(second.is_leading());
    assert_eq!(cluster.assigned_to(&task).await.as_deref(), Some("w1"));
    // The worker was only cut off from the store, and starts it.
    let request =
        LeaseRequest::new(Namespace::default(), QueueName::default(), key("w1").runner_id, LeaseToken(1));
    let started = start_assigned(&*cluster.store, &request).await.unwrap();
    assert_eq!(started.len(), 1, "an assignment is valid whatever term wrote it");
}

#[tokio::test]
async fn a_task_that_spent_its_losses_unstarted_is_dead() {
    let cluster = Cluster::new().await;
    let mut node = cluster.node("n1", "h1");
    cluster.heartbeat("w1", 0).await;
    let new = NewTask::new("t").max_losses(0);
    let task = cluster.store.enqueue(new).await.unwrap().key;
    node.tick().await.unwrap();
    cluster.pass(62, &[], &mut [&mut node]).await;
    assert_eq!(cluster.record(&task).await.state, TaskState::Dead);
}

#[tokio::test]
async fn a_leader_says_what_it_waits_for_only_when_nothing_is_left_to_assign() {
    let cluster = Cluster::new().await;
    let mut node = cluster.node("n1", "h1");
    cluster.heartbeat("w1", 0).await;
    assert_eq!(node.tick().await.unwrap()[0].max, 4);
    for _ in 0..4 {
        cluster.enqueue().await;
    }
    assert_eq!(node.tick().await.unwrap(), [], "there is no room");
    let overdue = cluster.store.overdue(10).await.unwrap();
    assert!(overdue.is_empty() && cluster.clock.now() > Timestamp::MIN);
}
