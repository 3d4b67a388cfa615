//! The loop of a node: it wakes for due schedules and local changes, and stops on its stop signal.

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};
use weaver_scheduler::event::NewEvent;

use crate::harness::{Harness, cases, every, seconds};

cases![
    the_loop_fires_what_becomes_due_and_processes_events_without_waiting_for_a_poll,
    the_loop_picks_up_settings_that_other_nodes_change,
    the_loop_stops_on_its_stop_signal,
];

#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
fn start(harness: &Harness) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel();
    let scheduler = harness.scheduler.clone();
    // A dropped sender stops it as well.
    let run = async move { scheduler.run(async { drop(stopped.await) }).await };
    (stop, tokio::spawn(run))
}

/// Waits until the condition holds; the test runner ends a test that waits forever.
async fn until(is_so: impl AsyncFn() -> bool) {
    while !is_so().await {
        tokio::task::yield_now().await;
    }
}

async fn the_loop_fires_what_becomes_due_and_processes_events_without_waiting_for_a_poll(harness: Harness) {
    let settings = harness.scheduler.settings();
    settings.put("scheduler.poll_interval_ms", json!(60_000), None).await.expect("it is valid");
    let (stop, running) = start(&harness);
    harness.add("it", every("5s")).await;
    for fires in 1..=3 {
        harness.clock.advance(seconds(5));
        until(async || harness.runs("it").await.len() == fires).await;
    }
    harness.add("on", DefinitionSpec::on_event("e", TaskTemplate::new("t"))).await;
    harness.scheduler.emit(&harness.space, NewEvent::new("e")).await.expect("it is valid");
    until(async || harness.runs("on").await.len() == 1).await;
    stop.send(()).expect("it runs");
    running.await.expect("it does not panic");
}

async fn the_loop_picks_up_settings_that_other_nodes_change(harness: Harness) {
    let (stop, running) = start(&harness);
    let other = crate::harness::scheduler(
        harness.another_store().await,
        std::sync::Arc::new(harness.clock.clone()),
        "other",
    );
    other.settings().put("scheduler.batch_max", json!(7), None).await.expect("it is valid");
    until(async || {
        harness.clock.advance(seconds(1));
        harness.scheduler.settings().current().batch_max == 7
    })
    .await;
    stop.send(()).expect("it runs");
    running.await.expect("it does not panic");
}

async fn the_loop_stops_on_its_stop_signal(harness: Harness) {
    let (stop, running) = start(&harness);
    stop.send(()).expect("it runs");
    running.await.expect("it does not panic");
}
