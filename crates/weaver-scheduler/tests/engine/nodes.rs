//! Many nodes at the same time: one run per fire and per event, whichever node is faster and whatever their
//! clocks show.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::task::TaskState;
use weaver_scheduler::Scheduler;
use weaver_scheduler::definition::{ConcurrencyPolicy, DefinitionSpec, TaskTemplate};
use weaver_scheduler::event::NewEvent;
use weaver_scheduler::misfire::Misfire;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore, SkewedClock};

use crate::harness::{GRACE, Harness, cases, every, scheduler, seconds};

cases![
    many_nodes_that_tick_at_once_make_each_fire_once,
    nodes_whose_clocks_differ_make_each_fire_once,
    many_nodes_make_one_run_of_an_event,
    many_nodes_never_run_a_forbidding_schedule_concurrently,
    a_node_that_was_delayed_between_reading_and_writing_decides_nothing,
];

const NODES: i64 = 4;

/// Nodes that each open the store, with clocks skewed by so many seconds times their number.
async fn nodes(harness: &Harness, skew_s: i64) -> Vec<Scheduler> {
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let skewed = SkewedClock::new(Arc::new(harness.clock.clone()), number * skew_s * 1_000_000);
        let clock: Arc<dyn Clock> = Arc::new(skewed);
        nodes.push(scheduler(harness.another_store().await, clock, &format!("node-{number}")));
    }
    nodes
}

async fn all_tick(nodes: &[Scheduler]) {
    let mut ticks = JoinSet::new();
    for node in nodes {
        let node = node.clone();
        ticks.spawn(async move { while node.tick().await.expect("the store answers").more {} });
    }
    ticks.join_all().await;
}

async fn many_nodes_that_tick_at_once_make_each_fire_once(harness: Harness) {
    let nodes = nodes(&harness, 0).await;
    for number in 0..10 {
        harness.add(&format!("d{number}"), every("1m")).await;
    }
    for _ in 0..3 {
        harness.clock.advance(seconds(60));
        all_tick(&nodes).await;
    }
    harness.clock.advance(GRACE);
    all_tick(&nodes).await;
    for number in 0..10 {
        let instants = harness.instants(&format!("d{number}")).await;
        assert_eq!(instants, ["00:01:00", "00:02:00", "00:03:00"], "d{number}");
    }
    assert_eq!(harness.notices().await, [], "nothing was missed");
}

async fn nodes_whose_clocks_differ_make_each_fire_once(harness: Harness) {
    let nodes = nodes(&harness, 7).await;
    harness.add("it", every("10s").misfire(Misfire::RunAll { max: 1000 })).await;
    harness.add("late", every("10s").misfire(Misfire::RunAll { max: 1000 })).await;
    for step in 0..40 {
        harness.clock.advance(seconds(3));
        if step % 3 == 0 {
            all_tick(&nodes).await;
        } else {
            nodes[step % nodes.len()].tick().await.expect("the store answers");
        }
    }
    harness.clock.advance(seconds(30));
    all_tick(&nodes).await;
    harness.clock.advance(GRACE);
    all_tick(&nodes).await;
    for name in ["it", "late"] {
        let runs = harness.runs(name).await;
        let fires: BTreeSet<i64> = runs
            .iter()
            .map(|run| run.spec.origin().scheduled_for.expect("a fire").as_micros() / 10_000_000)
            .collect();
        assert_eq!(fires.len(), runs.len(), "{name}: no fire twice");
        let (first, last) = (fires.first().expect("some"), fires.last().expect("some"));
        assert_eq!((last - first + 1) as usize, fires.len(), "{name}: no fire skipped");
        assert!(fires.len() >= 15, "{name}: {} fires in 150 s", fires.len());
    }
}

async fn many_nodes_make_one_run_of_an_event(harness: Harness) {
    let nodes = nodes(&harness, 0).await;
    harness.add("plain", DefinitionSpec::on_event("e", TaskTemplate::new("t"))).await;
    for number in 0..20 {
        let event = NewEvent::new("e").dedupe_key(format!("e-{number}"));
        harness.scheduler.emit(&harness.space, event).await.expect("it is valid");
    }
    all_tick(&nodes).await;
    assert_eq!(harness.runs("plain").await.len(), 20);
}

async fn many_nodes_never_run_a_forbidding_schedule_concurrently(harness: Harness) {
    let nodes = nodes(&harness, 1).await;
    harness.add("time", every("10s").concurrency(ConcurrencyPolicy::Replace)).await;
    let forbid = DefinitionSpec::on_event("e", TaskTemplate::new("t"));
    harness.add("event", forbid.concurrency(ConcurrencyPolicy::Forbid)).await;
    for number in 0..8 {
        let event = NewEvent::new("e").dedupe_key(format!("e-{number}"));
        harness.scheduler.emit(&harness.space, event).await.expect("it is valid");
        harness.clock.advance(seconds(4));
        all_tick(&nodes).await;
        for name in ["time", "event"] {
            let live =
                harness.states(name).await.into_iter().filter(|state| *state == TaskState::Queued).count();
            assert!(live <= 1, "{name}: {live} at once");
        }
    }
    assert_eq!(harness.runs("event").await.len(), 1);
    assert!(harness.runs("time").await.len() >= 3);
}

async fn a_node_that_was_delayed_between_reading_and_writing_decides_nothing(harness: Harness) {
    harness.add("it", every("1m")).await;
    harness.clock.advance(seconds(150));
    let (gate, is_held) = (ManualClock::default(), Arc::new(AtomicBool::new(false)));
    let held = Arc::clone(&is_held);
    let plan = move |site: &CallSite| match (site.method, site.number) {
        ("write_documents", 1) => {
            held.store(true, Ordering::SeqCst);
            Fault::Delay(seconds(1))
        }
        _ => Fault::None,
    };
    let store = FaultyStore::new(Arc::clone(&harness.store), Arc::new(gate.clone()), plan);
    let slow = scheduler(Arc::new(store), Arc::new(harness.clock.clone()), "slow");
    let mut tick = JoinSet::new();
    tick.spawn(async move { slow.tick().await });
    while !is_held.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    // It has decided on the run of 00:02. Time passes, and another node decides on that of 00:05.
    harness.pass(seconds(180)).await;
    let ticked = loop {
        gate.advance(seconds(1));
        if let Some(ticked) = tick.try_join_next() {
            break ticked.expect("it does not panic").expect("the store answers");
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((ticked.lost, ticked.runs), (1, 0));
    harness.pass(GRACE).await;
    assert_eq!(harness.instants("it").await, ["00:05:00"]);
    let next = harness.get("it").await.next_fire_at.expect("it goes on");
    assert_eq!(next.to_string(), "2026-01-01T00:06:00.000000Z");
}
