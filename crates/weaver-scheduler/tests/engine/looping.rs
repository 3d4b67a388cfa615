//! The loop of a node: wakes for what is due and for what changed here, and stops when it is told.

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};
use weaver_scheduler::event::NewEvent;

use crate::bed::{Bed, cases, every, seconds};

cases![
    the_loop_fires_what_becomes_due_and_processes_events_without_waiting_for_a_poll,
    the_loop_hears_of_settings_that_others_change,
    the_loop_stops_when_it_is_told,
];

#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
fn start(bed: &Bed) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel();
    let scheduler = bed.scheduler.clone();
    // A sender that is gone stops it as well.
    let run = async move { scheduler.run(async { drop(stopped.await) }).await };
    (stop, tokio::spawn(run))
}

/// Until it is so; a test that waits for what never comes is ended by its runner.
async fn until(is_so: impl AsyncFn() -> bool) {
    while !is_so().await {
        tokio::task::yield_now().await;
    }
}

async fn the_loop_fires_what_becomes_due_and_processes_events_without_waiting_for_a_poll(bed: Bed) {
    let settings = bed.scheduler.settings();
    settings.put("scheduler.poll_interval_ms", json!(60_000), None).await.expect("it is valid");
    let (stop, running) = start(&bed);
    bed.add("it", every("5s")).await;
    for fires in 1..=3 {
        bed.clock.advance(seconds(5));
        until(async || bed.runs("it").await.len() == fires).await;
    }
    bed.add("on", DefinitionSpec::on_event("e", TaskTemplate::new("t"))).await;
    bed.scheduler.emit(&bed.space, NewEvent::new("e")).await.expect("it is valid");
    until(async || bed.runs("on").await.len() == 1).await;
    stop.send(()).expect("it runs");
    running.await.expect("it does not panic");
}

async fn the_loop_hears_of_settings_that_others_change(bed: Bed) {
    let (stop, running) = start(&bed);
    let other =
        crate::bed::scheduler(bed.another_store().await, std::sync::Arc::new(bed.clock.clone()), "other");
    other.settings().put("scheduler.batch_max", json!(7), None).await.expect("it is valid");
    until(async || {
        bed.clock.advance(seconds(1));
        bed.scheduler.settings().current().batch_max == 7
    })
    .await;
    stop.send(()).expect("it runs");
    running.await.expect("it does not panic");
}

async fn the_loop_stops_when_it_is_told(bed: Bed) {
    let (stop, running) = start(&bed);
    stop.send(()).expect("it runs");
    running.await.expect("it does not panic");
}
