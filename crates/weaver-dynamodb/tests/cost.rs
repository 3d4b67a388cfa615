//! What a task costs, from `ReturnConsumedCapacity`: the numbers of `docs/operating/dynamodb.md`.

mod support;

use std::sync::Arc;

use weaver_core::clock::ManualClock;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Renewal};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Queue;
use weaver_core::task::NewTask;
use weaver_dynamodb::DynamoStore;
use weaver_dynamodb::db::Usage;

/// What one lifecycle costs.
#[derive(Debug)]
struct Cost {
    /// On the tables, and on our own index.
    ours: f64,
    /// On the index that seed 000 requires.
    seeds: f64,
    reads: f64,
}

/// The cost per task between two measurements.
fn cost(before: &Usage, after: &Usage, tasks: f64) -> Cost {
    let spent = |place: &str| after.write_units_of(place) - before.write_units_of(place);
    let ours = ["pm-runner-queue", "weaver-data", "ready-index"].map(spent).iter().sum::<f64>();
    Cost {
        ours: ours / tasks,
        seeds: spent("status-index") / tasks,
        reads: (after.read_units - before.read_units) / tasks,
    }
}

async fn lifecycle(store: &DynamoStore, tasks: u32, token: u128, task: NewTask) {
    store.enqueue_batch(vec![task; tasks as usize]).await.expect("as set up");
    let (worker, token) = (WorkerId::new("worker-1").expect("as set up"), LeaseToken(token));
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
    let leased = store.lease(LeaseRequest { max: tasks, slots: tasks, ..request }).await.expect("as set up");
    assert_eq!(leased.len(), tasks as usize);
    let end = |leased: &weaver_core::lease::Leased| {
        let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
        decide(&leased.record, command, leased.record.updated_at).expect("as set up")
    };
    let _ = store.commit(leased.iter().map(end).collect(), None).await.expect("as set up");
}

async fn measured(tasks: u32, task: NewTask) -> Cost {
    let store = support::open(&support::database(), Arc::new(ManualClock::default())).await;
    // Items written once per process or per second are written before the measurement.
    lifecycle(&store, 1, 1, NewTask::new("send_email")).await;
    let before = store.usage();
    lifecycle(&store, tasks, 2, task).await;
    cost(&before, &store.usage(), f64::from(tasks))
}

#[tokio::test]
async fn an_unkeyed_lifecycle_costs_five_writes_beside_lease_item_and_seed_index() {
    for (tasks, lease_item) in [(1, 2.0), (10, 0.2), (100, 0.02)] {
        let cost = measured(tasks, NewTask::new("send_email")).await;
        println!("leased {tasks} at a time: {cost:?}");
        assert!(cost.ours <= 5.0 + lease_item * 3.0, "{cost:?}");
        assert!(cost.seeds <= 5.0, "{cost:?}");
        assert!(cost.reads <= 1.0 + 3.0 / f64::from(tasks), "{cost:?}");
    }
}

#[tokio::test]
async fn a_task_leased_alone_costs_what_the_table_of_items_says() {
    let store = support::open(&support::database(), Arc::new(ManualClock::default())).await;
    lifecycle(&store, 1, 1, NewTask::new("send_email")).await;
    let before = store.usage();
    lifecycle(&store, 1, 2, NewTask::new("send_email")).await;
    let after = store.usage();
    let spent = |place: &str| after.write_units_of(place) - before.write_units_of(place);
    let spent = ["pm-runner-queue", "ready-index", "weaver-data"].map(spent);
    assert_eq!(spent, [3.0, 2.0, 2.0], "the task, its index entry, the lease item");
    assert_eq!(after.read_units - before.read_units, 1.5, "the settings, and a page of the index");
}

#[tokio::test]
async fn a_renewal_costs_one_write_and_one_for_the_seeds_index() {
    let store = support::open(&support::database(), Arc::new(ManualClock::default())).await;
    store.enqueue_batch(vec![NewTask::new("send_email"); 10]).await.expect("as set up");
    let (worker, token) = (WorkerId::new("worker-1").expect("as set up"), LeaseToken(1));
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
    let leased = store.lease(LeaseRequest { max: 10, slots: 10, ..request }).await.expect("as set up");
    let before = store.usage();
    let _ = store
        .renew(leased.into_iter().map(|leased| Renewal::of(leased.lease)).collect())
        .await
        .expect("as set up");
    let cost = cost(&before, &store.usage(), 10.0);
    println!("a renewal: {cost:?}");
    assert!(cost.ours <= 1.0 && cost.seeds <= 1.0 && cost.reads == 0.0, "{cost:?}");
}

#[tokio::test]
async fn a_serial_key_costs_more_and_how_much_is_measured() {
    let cost = measured(1, NewTask::new("send_email").serial_key("customer-1")).await;
    println!("with a serial key: {cost:?}");
    assert!(cost.ours <= 36.0, "{cost:?}");
}
