//! Events: stored, deduplicated per namespace, and one run for each schedule with a matching trigger.

use serde_json::{Value, json};
use weaver_core::name::Namespace;
use weaver_core::task::TaskState;
use weaver_scheduler::SchedulerError;
use weaver_scheduler::definition::{ConcurrencyPolicy, DefinitionSpec, NoticeKind, TaskTemplate};
use weaver_scheduler::event::NewEvent;

use crate::harness::{Harness, cases, seconds};

cases![
    each_schedule_with_a_matching_trigger_gets_one_run_per_event,
    a_processed_event_has_its_time_and_creates_no_more_runs,
    the_run_gets_the_event,
    an_event_with_a_known_key_makes_no_second_run,
    events_of_one_namespace_make_no_runs_in_another,
    many_events_are_stored_in_one_call_and_duplicates_among_them_are_merged,
    a_schedule_that_forbids_concurrent_runs_skips_events_while_it_runs,
    a_schedule_that_replaces_runs_the_newest_event,
    a_schedule_whose_event_type_was_edited_is_found_by_the_new_type,
    an_event_that_is_not_valid_is_refused_with_the_field,
    processed_events_are_removed_after_their_retention_and_unprocessed_ones_stay,
    more_events_than_one_tick_takes_are_processed_by_the_next_ones,
];

fn on(event_type: &str) -> DefinitionSpec {
    DefinitionSpec::on_event(event_type, TaskTemplate::new("t"))
}

async fn emit(harness: &Harness, event_type: &str) -> String {
    let emitted = harness.scheduler.emit(&harness.space, NewEvent::new(event_type)).await;
    harness.clock.advance(seconds(1));
    emitted.expect("it is valid").id
}

async fn each_schedule_with_a_matching_trigger_gets_one_run_per_event(harness: Harness) {
    harness.add("one", on("order.paid")).await;
    harness.add("two", on("order.paid")).await;
    harness.add("other", on("order.sent")).await;
    harness.add("longer", on("order.paid/late")).await;
    let mut off = on("order.paid");
    off.enabled = false;
    harness.add("off", off).await;
    let ids = [emit(&harness, "order.paid").await, emit(&harness, "order.paid").await];
    harness.pass(seconds(0)).await;
    harness.pass(seconds(60)).await;
    for name in ["one", "two"] {
        let mut keys: Vec<String> = harness
            .runs(name)
            .await
            .iter()
            .map(|run| run.spec.idempotency_key.as_ref().expect("it has a key").to_string())
            .collect();
        keys.sort();
        assert_eq!(keys, ids.clone().map(|id| format!("event:{name}:{id}")));
    }
    for name in ["other", "longer", "off"] {
        assert_eq!(harness.runs(name).await.len(), 0, "{name}");
    }
}

async fn a_processed_event_has_its_time_and_creates_no_more_runs(harness: Harness) {
    let id = emit(&harness, "order.paid").await;
    let event = harness.scheduler.event(&harness.space, &id).await.expect("the store answers");
    assert_eq!(event.expect("it is stored").processed_at, None);
    harness.pass(seconds(0)).await;
    let event = harness.scheduler.event(&harness.space, &id).await.expect("the store answers");
    assert_eq!(event.expect("it is kept").processed_at, Some(harness.now()));
    harness.add("late", on("order.paid")).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.runs("late").await.len(), 0, "it did not exist when the event was processed");
}

async fn the_run_gets_the_event(harness: Harness) {
    harness.add("plain", on("order.paid")).await;
    let mut inside = on("order.paid");
    inside.task.payload = json!({"to": "ada"});
    inside.task.event_field = Some("about".to_owned());
    harness.add("inside", inside).await;
    let mut fixed = on("order.paid");
    fixed.task.payload = json!([1]);
    harness.add("fixed", fixed).await;
    let event = NewEvent::new("order.paid").payload(json!({"order": 7})).dedupe_key("o-7");
    harness.scheduler.emit(&harness.space, event).await.expect("it is valid");
    harness.pass(seconds(0)).await;
    let seen = json!({"id": "o-7", "type": "order.paid", "payload": {"order": 7}});
    let expected =
        [("plain", seen.clone()), ("inside", json!({"to": "ada", "about": seen})), ("fixed", json!([1]))];
    for (name, payload) in expected {
        let runs = harness.runs(name).await;
        assert_eq!(runs[0].spec.envelope.decode::<Value>().expect("JSON"), payload, "{name}");
    }
}

async fn an_event_with_a_known_key_makes_no_second_run(harness: Harness) {
    harness.add("it", on("order.paid")).await;
    let event = NewEvent::new("order.paid").dedupe_key("o-7");
    assert!(!harness.scheduler.emit(&harness.space, event.clone()).await.expect("it is valid").existing);
    harness.pass(seconds(1)).await;
    assert!(harness.scheduler.emit(&harness.space, event).await.expect("it is valid").existing);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.runs("it").await.len(), 1);
}

async fn events_of_one_namespace_make_no_runs_in_another(harness: Harness) {
    harness.add("it", on("order.paid")).await;
    let elsewhere = Namespace::new("elsewhere").expect("a name");
    let event = NewEvent::new("order.paid").dedupe_key("o-7");
    assert!(!harness.scheduler.emit(&elsewhere, event.clone()).await.expect("it is valid").existing);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.runs("it").await.len(), 0);
    assert!(!harness.scheduler.emit(&harness.space, event).await.expect("it is valid").existing);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.runs("it").await.len(), 1);
}

async fn many_events_are_stored_in_one_call_and_duplicates_among_them_are_merged(harness: Harness) {
    harness.add("it", on("order.paid")).await;
    let event = |key: &str| NewEvent::new("order.paid").dedupe_key(key);
    let emitted = harness.scheduler.emit_all(&harness.space, vec![event("a"), event("b"), event("a")]).await;
    let existing: Vec<bool> = emitted.expect("they are valid").iter().map(|event| event.existing).collect();
    assert_eq!(existing, [false, false, true]);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.runs("it").await.len(), 2);
}

async fn a_schedule_that_forbids_concurrent_runs_skips_events_while_it_runs(harness: Harness) {
    harness.add("it", on("order.paid").concurrency(ConcurrencyPolicy::Forbid)).await;
    emit(&harness, "order.paid").await;
    emit(&harness, "order.paid").await;
    harness.pass(seconds(0)).await;
    assert_eq!(harness.runs("it").await.len(), 1, "concurrent runs are not allowed");
    let running = harness.start_one().await;
    emit(&harness, "order.paid").await;
    harness.pass(seconds(0)).await;
    assert_eq!(harness.runs("it").await.len(), 1);
    let notices = harness.notices().await;
    assert_eq!(notices.iter().map(|notice| notice.count).collect::<Vec<_>>(), [1, 1], "{notices:?}");
    use weaver_core::queue::QueueExt;
    harness.store.mark_succeeded(&running, None).await.expect("the lease is valid");
    harness.pass(seconds(60)).await;
    assert_eq!(harness.runs("it").await.len(), 1, "a skipped event is not caught up on");
    emit(&harness, "order.paid").await;
    harness.pass(seconds(0)).await;
    assert_eq!(harness.runs("it").await.len(), 2);
}

async fn a_schedule_that_replaces_runs_the_newest_event(harness: Harness) {
    harness.add("it", on("order.paid").concurrency(ConcurrencyPolicy::Replace)).await;
    emit(&harness, "order.paid").await;
    harness.pass(seconds(0)).await;
    harness.start_one().await;
    emit(&harness, "order.paid").await;
    let newest = emit(&harness, "order.paid").await;
    harness.pass(seconds(0)).await;
    let runs = harness.runs("it").await;
    assert_eq!(harness.states("it").await, [TaskState::Cancelled, TaskState::Queued]);
    let key = runs[1].spec.idempotency_key.as_ref().map(ToString::to_string);
    assert_eq!(key, Some(format!("event:it:{newest}")));
    let kinds: Vec<NoticeKind> = harness.notices().await.iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [NoticeKind::Skipped, NoticeKind::Replaced]);
}

async fn a_schedule_whose_event_type_was_edited_is_found_by_the_new_type(harness: Harness) {
    let added = harness.add("it", on("order.paid")).await;
    harness
        .scheduler
        .edit(&harness.space, "it", added.version, on("order.sent"))
        .await
        .expect("it is that version");
    emit(&harness, "order.paid").await;
    emit(&harness, "order.sent").await;
    harness.pass(seconds(0)).await;
    assert_eq!(harness.runs("it").await.len(), 1);
    harness.scheduler.remove(&harness.space, "it", None).await.expect("it is there");
    emit(&harness, "order.sent").await;
    harness.pass(seconds(0)).await;
    assert_eq!(harness.runs("it").await.len(), 1);
}

async fn an_event_that_is_not_valid_is_refused_with_the_field(harness: Harness) {
    for (event, field) in [
        (NewEvent::new(""), "event_type"),
        (NewEvent::new("t").dedupe_key("x".repeat(161)), "dedupe_key"),
        (NewEvent::new("t").payload(json!("x".repeat(70_000))), "payload"),
    ] {
        let refused = harness.scheduler.emit(&harness.space, event).await.expect_err("it is not valid");
        let SchedulerError::Invalid(invalid) = &refused else { panic!("{refused:?}") };
        assert_eq!(invalid.field, field);
    }
}

async fn processed_events_are_removed_after_their_retention_and_unprocessed_ones_stay(harness: Harness) {
    let old = emit(&harness, "order.paid").await;
    harness.pass(seconds(0)).await;
    let unprocessed = emit(&harness, "order.paid").await;
    harness.clock.advance(seconds(6 * 24 * 3600));
    harness.scheduler.sweep().await.expect("the store answers");
    assert!(
        harness.scheduler.event(&harness.space, &old).await.expect("the store answers").is_some(),
        "too early"
    );
    harness.clock.advance(seconds(25 * 3600));
    assert_eq!(harness.scheduler.sweep().await, Ok((1, false)));
    assert_eq!(harness.scheduler.event(&harness.space, &old).await, Ok(None));
    let kept = harness.scheduler.event(&harness.space, &unprocessed).await.expect("the store answers");
    assert_eq!(kept.expect("it is not processed").processed_at, None);
    harness.pass(seconds(0)).await;
    harness.clock.advance(seconds(3601));
    assert_eq!(harness.scheduler.sweep().await, Ok((1, false)), "processed since, and old");
}

async fn more_events_than_one_tick_takes_are_processed_by_the_next_ones(harness: Harness) {
    harness.scheduler.settings().put("scheduler.batch_max", json!(2), None).await.expect("it is valid");
    harness.add("it", on("order.paid")).await;
    let events = (0..5).map(|number| NewEvent::new("order.paid").dedupe_key(format!("e-{number}")));
    harness.scheduler.emit_all(&harness.space, events.collect()).await.expect("they are valid");
    let ticked = harness.scheduler.tick().await.expect("the store answers");
    assert_eq!((ticked.events, ticked.more), (2, true));
    harness.settle(&harness.scheduler).await;
    assert_eq!(harness.runs("it").await.len(), 5);
}
