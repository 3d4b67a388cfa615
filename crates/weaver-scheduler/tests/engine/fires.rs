//! Scheduled runs: one per fire, with the seed's idempotency key, and the next fire stored.

use serde_json::json;
use weaver_core::task::TaskState;
use weaver_scheduler::SchedulerError;
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};

use crate::harness::{Harness, cases, every, seconds};

cases![
    a_fire_creates_one_run_with_the_key_of_its_schedule_and_instant,
    no_run_is_created_before_its_time,
    the_run_is_made_from_the_template,
    a_one_shot_fires_once_and_disables_itself,
    a_fire_does_not_change_the_version_that_clients_see,
    a_disabled_schedule_creates_no_runs_and_does_not_catch_up,
    an_edit_keeps_a_fire_that_is_due_and_plans_the_next_anew,
    a_manual_run_is_created_at_once_and_does_not_change_the_schedule,
    a_removed_schedule_fires_no_more,
    a_schedule_that_cannot_be_read_blocks_no_other,
];

async fn a_fire_creates_one_run_with_the_key_of_its_schedule_and_instant(harness: Harness) {
    harness.add("minutely", every("1m")).await;
    harness.pass(seconds(60)).await;
    harness.settle(&harness.scheduler).await;
    let runs = harness.runs("minutely").await;
    assert_eq!(runs.len(), 1);
    let key = runs[0].spec.idempotency_key.as_ref().map(ToString::to_string);
    assert_eq!(key.as_deref(), Some("time:minutely:2026-01-01T00:01:00.000000Z"));
    let origin = runs[0].spec.origin();
    assert_eq!(origin.job_definition_id.as_ref().map(AsRef::as_ref), Some("minutely"));
    assert_eq!(origin.scheduled_for, Some(harness.now()));
    let definition = harness.get("minutely").await;
    assert_eq!(definition.next_fire_at, Some(harness.now().saturating_add(seconds(60))));
    assert_eq!((definition.last_fire_at, definition.last_runs), (Some(harness.now()), vec![runs[0].key.id]));
}

async fn no_run_is_created_before_its_time(harness: Harness) {
    harness.add("minutely", every("1m")).await;
    harness.pass(seconds(59)).await;
    assert_eq!(harness.runs("minutely").await.len(), 0);
    harness.pass(seconds(1)).await;
    harness.pass(seconds(59)).await;
    assert_eq!(harness.instants("minutely").await, ["00:01:00"]);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.instants("minutely").await, ["00:01:00", "00:02:00"]);
}

async fn the_run_is_made_from_the_template(harness: Harness) {
    let mut task = TaskTemplate::new("backup").payload(json!({"to": "disk"})).queue("slow");
    task.priority = Some(2);
    task.timeout_ms = Some(5000);
    task.max_attempts = Some(7);
    task.labels.insert("team".to_owned(), "storage".to_owned());
    harness.add("nightly", DefinitionSpec::timed(ScheduleSpec::new("every 1m"), task)).await;
    harness.pass(seconds(60)).await;
    let runs = harness.runs("nightly").await;
    let spec = &runs[0].spec;
    assert_eq!(spec.envelope.task_type.as_str(), "backup");
    assert_eq!(spec.envelope.decode::<serde_json::Value>().expect("JSON"), json!({"to": "disk"}));
    assert_eq!((spec.queue.as_str(), spec.priority.get(), spec.max_attempts), ("slow", 2, 7));
    assert_eq!(spec.timeout, Some(seconds(5)));
    assert_eq!(spec.origin().labels.get("team").map(String::as_str), Some("storage"));
}

async fn a_one_shot_fires_once_and_disables_itself(harness: Harness) {
    let once = ScheduleSpec::new("once at 2026-01-01T00:01:00Z");
    harness.add("once", DefinitionSpec::timed(once, TaskTemplate::new("t"))).await;
    harness.pass(seconds(60)).await;
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.instants("once").await, ["00:01:00"]);
    let definition = harness.get("once").await;
    assert_eq!((definition.spec.enabled, definition.next_fire_at), (false, None));
}

async fn a_fire_does_not_change_the_version_that_clients_see(harness: Harness) {
    let added = harness.add("minutely", every("1m")).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.get("minutely").await.version, added.version);
    let edited = harness.scheduler.edit(&harness.space, "minutely", added.version, every("2m")).await;
    let edited = edited.expect("no other client has changed it");
    assert!(edited.version > added.version);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.get("minutely").await.version, edited.version);
    let late = harness.scheduler.edit(&harness.space, "minutely", added.version, every("3m")).await;
    assert!(matches!(late, Err(SchedulerError::Stale { found, .. }) if found == edited.version), "{late:?}");
}

async fn a_disabled_schedule_creates_no_runs_and_does_not_catch_up(harness: Harness) {
    harness.add("minutely", every("1m")).await;
    harness.scheduler.disable(&harness.space, "minutely", None).await.expect("it is there");
    harness.pass(seconds(600)).await;
    assert_eq!(harness.runs("minutely").await.len(), 0);
    harness.scheduler.enable(&harness.space, "minutely", None).await.expect("it is there");
    harness.pass(seconds(60)).await;
    assert_eq!(harness.instants("minutely").await, ["00:11:00"]);
    assert_eq!(harness.notices().await, []);
}

async fn an_edit_keeps_a_fire_that_is_due_and_plans_the_next_anew(harness: Harness) {
    let added = harness.add("it", every("1m")).await;
    harness.clock.advance(seconds(60));
    let edited = harness.scheduler.edit(&harness.space, "it", added.version, every("1h")).await;
    assert_eq!(edited.expect("it is that version").next_fire_at, Some(harness.now()));
    harness.settle(&harness.scheduler).await;
    assert_eq!(harness.instants("it").await, ["00:01:00"]);
    let version = harness.get("it").await.version;
    harness.scheduler.edit(&harness.space, "it", version, every("2m")).await.expect("it is that version");
    harness.pass(seconds(60)).await;
    assert_eq!(harness.instants("it").await, ["00:01:00", "00:02:00"]);
}

async fn a_manual_run_is_created_at_once_and_does_not_change_the_schedule(harness: Harness) {
    let added = harness.add("hourly", every("1h")).await;
    let first = harness.scheduler.run_now(&harness.space, "hourly").await.expect("it is there");
    let second = harness.scheduler.run_now(&harness.space, "hourly").await.expect("it is there");
    assert_ne!(first, second);
    assert_eq!(harness.states("hourly").await, [TaskState::Queued; 2]);
    let definition = harness.get("hourly").await;
    assert_eq!((definition.next_fire_at, definition.version), (added.next_fire_at, added.version));
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.runs("hourly").await.len(), 3);
}

async fn a_removed_schedule_fires_no_more(harness: Harness) {
    harness.add("minutely", every("1m")).await;
    harness.pass(seconds(60)).await;
    harness.scheduler.remove(&harness.space, "minutely", None).await.expect("it is there");
    harness.pass(seconds(600)).await;
    assert_eq!(harness.runs("minutely").await.len(), 1, "its runs stay");
}

async fn a_schedule_that_cannot_be_read_blocks_no_other(harness: Harness) {
    use weaver_core::ports::{DocumentKey, Expect};
    let key = DocumentKey::new(harness.space.clone(), "job_definition", "broken");
    let body = bytes::Bytes::from_static(b"{\"from\": \"the future\"}");
    let due = Some(harness.now());
    let version =
        harness.store.put_document(&key, body.clone(), Expect::Absent, due).await.expect("it is new");
    harness.add("minutely", every("1m")).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.instants("minutely").await, ["00:01:00"]);
    let found = harness.store.get_document(&key).await.expect("the store answers").expect("it is kept");
    // Still due for a node that can read it: this node does not write what it cannot read.
    assert_eq!((found.body, found.version, found.due), (body, version, due), "as it was");
    let ticked = harness.scheduler.tick().await.expect("the store answers");
    assert!(!ticked.more, "skipped, it keeps no node busy: {ticked:?}");
    let listed = harness.scheduler.list(&harness.space, "", None, 10).await.expect("the store answers").items;
    assert_eq!(listed.len(), 1, "and it hides no other");
    let refused = harness.scheduler.get(&harness.space, "broken").await;
    assert!(matches!(refused, Err(SchedulerError::Unreadable { .. })), "{refused:?}");
}
