//! Fires: one run each, with the key the seed writes, and the next one stored.

use serde_json::json;
use weaver_core::task::TaskState;
use weaver_scheduler::SchedulerError;
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};

use crate::bed::{Bed, cases, every, seconds};

cases![
    a_fire_makes_one_run_with_the_key_of_its_definition_and_instant,
    nothing_is_made_before_its_time,
    the_run_is_what_the_template_says,
    a_one_shot_fires_once_and_disables_itself,
    a_fire_leaves_the_version_that_people_know,
    a_disabled_definition_makes_no_runs_and_does_not_make_up_for_them,
    an_edit_keeps_a_fire_that_is_due_and_plans_the_next_anew,
    a_run_by_hand_is_made_at_once_and_leaves_the_schedule_alone,
    a_definition_that_is_removed_fires_no_more,
    a_definition_that_cannot_be_read_is_in_nobodys_way,
];

async fn a_fire_makes_one_run_with_the_key_of_its_definition_and_instant(bed: Bed) {
    bed.add("minutely", every("1m")).await;
    bed.pass(seconds(60)).await;
    bed.settle(&bed.scheduler).await;
    let runs = bed.runs("minutely").await;
    assert_eq!(runs.len(), 1);
    let key = runs[0].spec.idempotency_key.as_ref().map(ToString::to_string);
    assert_eq!(key.as_deref(), Some("time:minutely:2026-01-01T00:01:00.000000Z"));
    let origin = runs[0].spec.origin();
    assert_eq!(origin.job_definition_id.as_ref().map(AsRef::as_ref), Some("minutely"));
    assert_eq!(origin.scheduled_for, Some(bed.now()));
    let definition = bed.get("minutely").await;
    assert_eq!(definition.next_fire_at, Some(bed.now().saturating_add(seconds(60))));
    assert_eq!((definition.last_fire_at, definition.last_runs), (Some(bed.now()), vec![runs[0].key.id]));
}

async fn nothing_is_made_before_its_time(bed: Bed) {
    bed.add("minutely", every("1m")).await;
    bed.pass(seconds(59)).await;
    assert_eq!(bed.runs("minutely").await.len(), 0);
    bed.pass(seconds(1)).await;
    bed.pass(seconds(59)).await;
    assert_eq!(bed.instants("minutely").await, ["00:01:00"]);
    bed.pass(seconds(1)).await;
    assert_eq!(bed.instants("minutely").await, ["00:01:00", "00:02:00"]);
}

async fn the_run_is_what_the_template_says(bed: Bed) {
    let mut task = TaskTemplate::new("backup").payload(json!({"to": "disk"})).queue("slow");
    task.priority = Some(2);
    task.timeout_ms = Some(5000);
    task.max_attempts = Some(7);
    task.labels.insert("team".to_owned(), "storage".to_owned());
    bed.add("nightly", DefinitionSpec::timed(ScheduleSpec::new("every 1m"), task)).await;
    bed.pass(seconds(60)).await;
    let runs = bed.runs("nightly").await;
    let spec = &runs[0].spec;
    assert_eq!(spec.envelope.task_type.as_str(), "backup");
    assert_eq!(spec.envelope.decode::<serde_json::Value>().expect("JSON"), json!({"to": "disk"}));
    assert_eq!((spec.queue.as_str(), spec.priority.get(), spec.max_attempts), ("slow", 2, 7));
    assert_eq!(spec.timeout, Some(seconds(5)));
    assert_eq!(spec.origin().labels.get("team").map(String::as_str), Some("storage"));
}

async fn a_one_shot_fires_once_and_disables_itself(bed: Bed) {
    let once = ScheduleSpec::new("once at 2026-01-01T00:01:00Z");
    bed.add("once", DefinitionSpec::timed(once, TaskTemplate::new("t"))).await;
    bed.pass(seconds(60)).await;
    bed.pass(seconds(3600)).await;
    assert_eq!(bed.instants("once").await, ["00:01:00"]);
    let definition = bed.get("once").await;
    assert_eq!((definition.spec.enabled, definition.next_fire_at), (false, None));
}

async fn a_fire_leaves_the_version_that_people_know(bed: Bed) {
    let added = bed.add("minutely", every("1m")).await;
    bed.pass(seconds(60)).await;
    assert_eq!(bed.get("minutely").await.version, added.version);
    let edited = bed.scheduler.edit(&bed.space, "minutely", added.version, every("2m")).await;
    let edited = edited.expect("nobody else has changed it");
    assert!(edited.version > added.version);
    bed.pass(seconds(60)).await;
    assert_eq!(bed.get("minutely").await.version, edited.version);
    let late = bed.scheduler.edit(&bed.space, "minutely", added.version, every("3m")).await;
    assert!(matches!(late, Err(SchedulerError::Stale { found, .. }) if found == edited.version), "{late:?}");
}

async fn a_disabled_definition_makes_no_runs_and_does_not_make_up_for_them(bed: Bed) {
    bed.add("minutely", every("1m")).await;
    bed.scheduler.disable(&bed.space, "minutely", None).await.expect("it is there");
    bed.pass(seconds(600)).await;
    assert_eq!(bed.runs("minutely").await.len(), 0);
    bed.scheduler.enable(&bed.space, "minutely", None).await.expect("it is there");
    bed.pass(seconds(60)).await;
    assert_eq!(bed.instants("minutely").await, ["00:11:00"]);
    assert_eq!(bed.notices().await, []);
}

async fn an_edit_keeps_a_fire_that_is_due_and_plans_the_next_anew(bed: Bed) {
    let added = bed.add("it", every("1m")).await;
    bed.clock.advance(seconds(60));
    let edited = bed.scheduler.edit(&bed.space, "it", added.version, every("1h")).await;
    assert_eq!(edited.expect("it is that version").next_fire_at, Some(bed.now()));
    bed.settle(&bed.scheduler).await;
    assert_eq!(bed.instants("it").await, ["00:01:00"]);
    let version = bed.get("it").await.version;
    bed.scheduler.edit(&bed.space, "it", version, every("2m")).await.expect("it is that version");
    bed.pass(seconds(60)).await;
    assert_eq!(bed.instants("it").await, ["00:01:00", "00:02:00"]);
}

async fn a_run_by_hand_is_made_at_once_and_leaves_the_schedule_alone(bed: Bed) {
    let added = bed.add("hourly", every("1h")).await;
    let first = bed.scheduler.run_now(&bed.space, "hourly").await.expect("it is there");
    let second = bed.scheduler.run_now(&bed.space, "hourly").await.expect("it is there");
    assert_ne!(first, second);
    assert_eq!(bed.states("hourly").await, [TaskState::Queued; 2]);
    let definition = bed.get("hourly").await;
    assert_eq!((definition.next_fire_at, definition.version), (added.next_fire_at, added.version));
    bed.pass(seconds(3600)).await;
    assert_eq!(bed.runs("hourly").await.len(), 3);
}

async fn a_definition_that_is_removed_fires_no_more(bed: Bed) {
    bed.add("minutely", every("1m")).await;
    bed.pass(seconds(60)).await;
    bed.scheduler.remove(&bed.space, "minutely", None).await.expect("it is there");
    bed.pass(seconds(600)).await;
    assert_eq!(bed.runs("minutely").await.len(), 1, "its runs stay");
}

async fn a_definition_that_cannot_be_read_is_in_nobodys_way(bed: Bed) {
    use weaver_core::ports::{DocumentKey, Expect};
    let key = DocumentKey::new(bed.space.clone(), "job_definition", "broken");
    let body = bytes::Bytes::from_static(b"{\"from\": \"the future\"}");
    let due = Some(bed.now());
    let version = bed.store.put_document(&key, body.clone(), Expect::Absent, due).await.expect("it is new");
    bed.add("minutely", every("1m")).await;
    bed.pass(seconds(60)).await;
    assert_eq!(bed.instants("minutely").await, ["00:01:00"]);
    let found = bed.store.get_document(&key).await.expect("the store answers").expect("it is kept");
    // A node that can read it finds it due: what this one cannot read it does not write.
    assert_eq!((found.body, found.version, found.due), (body, version, due), "as it was");
    let ticked = bed.scheduler.tick().await.expect("the store answers");
    assert!(!ticked.more, "passed over, it keeps no node busy: {ticked:?}");
    let listed = bed.scheduler.list(&bed.space, "", None, 10).await.expect("the store answers").items;
    assert_eq!(listed.len(), 1, "and hides nobody");
    let refused = bed.scheduler.get(&bed.space, "broken").await;
    assert!(matches!(refused, Err(SchedulerError::Unreadable { .. })), "{refused:?}");
}
