//! Events: stored, deduped per namespace, and one run for each definition that waits.

use serde_json::{Value, json};
use weaver_core::name::Namespace;
use weaver_core::task::TaskState;
use weaver_scheduler::SchedulerError;
use weaver_scheduler::definition::{ConcurrencyPolicy, DefinitionSpec, NoticeKind, TaskTemplate};
use weaver_scheduler::event::NewEvent;

use crate::bed::{Bed, cases, seconds};

cases![
    each_definition_that_waits_gets_one_run_per_event,
    an_event_that_is_processed_says_when_and_makes_no_more_runs,
    the_run_gets_the_event,
    an_event_with_a_known_key_makes_no_second_run,
    events_of_one_namespace_make_no_runs_in_another,
    many_events_are_stored_in_one_call_and_doubles_among_them_are_one,
    a_definition_that_forbids_overlap_skips_events_while_it_runs,
    a_definition_that_replaces_runs_the_newest_event,
    a_definition_that_waits_for_another_type_is_found_by_that_one,
    an_event_that_is_not_valid_is_refused_with_the_field,
    processed_events_go_after_their_retention_and_unprocessed_ones_stay,
    more_events_than_one_tick_takes_are_processed_by_the_next_ones,
];

fn on(event_type: &str) -> DefinitionSpec {
    DefinitionSpec::on_event(event_type, TaskTemplate::new("t"))
}

async fn emit(bed: &Bed, event_type: &str) -> String {
    let emitted = bed.scheduler.emit(&bed.space, NewEvent::new(event_type)).await;
    bed.clock.advance(seconds(1));
    emitted.expect("it is valid").id
}

async fn each_definition_that_waits_gets_one_run_per_event(bed: Bed) {
    bed.add("one", on("order.paid")).await;
    bed.add("two", on("order.paid")).await;
    bed.add("other", on("order.sent")).await;
    bed.add("longer", on("order.paid/late")).await;
    let mut off = on("order.paid");
    off.enabled = false;
    bed.add("off", off).await;
    let ids = [emit(&bed, "order.paid").await, emit(&bed, "order.paid").await];
    bed.pass(seconds(0)).await;
    bed.pass(seconds(60)).await;
    for name in ["one", "two"] {
        let mut keys: Vec<String> = bed
            .runs(name)
            .await
            .iter()
            .map(|run| run.spec.idempotency_key.as_ref().expect("it has a key").to_string())
            .collect();
        keys.sort();
        assert_eq!(keys, ids.clone().map(|id| format!("event:{name}:{id}")));
    }
    for name in ["other", "longer", "off"] {
        assert_eq!(bed.runs(name).await.len(), 0, "{name}");
    }
}

async fn an_event_that_is_processed_says_when_and_makes_no_more_runs(bed: Bed) {
    let id = emit(&bed, "order.paid").await;
    let event = bed.scheduler.event(&bed.space, &id).await.expect("the store answers");
    assert_eq!(event.expect("it is stored").processed_at, None);
    bed.pass(seconds(0)).await;
    let event = bed.scheduler.event(&bed.space, &id).await.expect("the store answers");
    assert_eq!(event.expect("it is kept").processed_at, Some(bed.now()));
    bed.add("late", on("order.paid")).await;
    bed.pass(seconds(60)).await;
    assert_eq!(bed.runs("late").await.len(), 0, "it was not there when the event was processed");
}

async fn the_run_gets_the_event(bed: Bed) {
    bed.add("plain", on("order.paid")).await;
    let mut inside = on("order.paid");
    inside.task.payload = json!({"to": "ada"});
    inside.task.event_field = Some("about".to_owned());
    bed.add("inside", inside).await;
    let mut fixed = on("order.paid");
    fixed.task.payload = json!([1]);
    bed.add("fixed", fixed).await;
    let event = NewEvent::new("order.paid").payload(json!({"order": 7})).dedupe_key("o-7");
    bed.scheduler.emit(&bed.space, event).await.expect("it is valid");
    bed.pass(seconds(0)).await;
    let seen = json!({"id": "o-7", "type": "order.paid", "payload": {"order": 7}});
    let expected =
        [("plain", seen.clone()), ("inside", json!({"to": "ada", "about": seen})), ("fixed", json!([1]))];
    for (name, payload) in expected {
        let runs = bed.runs(name).await;
        assert_eq!(runs[0].spec.envelope.decode::<Value>().expect("JSON"), payload, "{name}");
    }
}

async fn an_event_with_a_known_key_makes_no_second_run(bed: Bed) {
    bed.add("it", on("order.paid")).await;
    let event = NewEvent::new("order.paid").dedupe_key("o-7");
    assert!(!bed.scheduler.emit(&bed.space, event.clone()).await.expect("it is valid").existing);
    bed.pass(seconds(1)).await;
    assert!(bed.scheduler.emit(&bed.space, event).await.expect("it is valid").existing);
    bed.pass(seconds(1)).await;
    assert_eq!(bed.runs("it").await.len(), 1);
}

async fn events_of_one_namespace_make_no_runs_in_another(bed: Bed) {
    bed.add("it", on("order.paid")).await;
    let elsewhere = Namespace::new("elsewhere").expect("a name");
    let event = NewEvent::new("order.paid").dedupe_key("o-7");
    assert!(!bed.scheduler.emit(&elsewhere, event.clone()).await.expect("it is valid").existing);
    bed.pass(seconds(1)).await;
    assert_eq!(bed.runs("it").await.len(), 0);
    assert!(!bed.scheduler.emit(&bed.space, event).await.expect("it is valid").existing);
    bed.pass(seconds(1)).await;
    assert_eq!(bed.runs("it").await.len(), 1);
}

async fn many_events_are_stored_in_one_call_and_doubles_among_them_are_one(bed: Bed) {
    bed.add("it", on("order.paid")).await;
    let event = |key: &str| NewEvent::new("order.paid").dedupe_key(key);
    let emitted = bed.scheduler.emit_all(&bed.space, vec![event("a"), event("b"), event("a")]).await;
    let existing: Vec<bool> = emitted.expect("they are valid").iter().map(|event| event.existing).collect();
    assert_eq!(existing, [false, false, true]);
    bed.pass(seconds(1)).await;
    assert_eq!(bed.runs("it").await.len(), 2);
}

async fn a_definition_that_forbids_overlap_skips_events_while_it_runs(bed: Bed) {
    bed.add("it", on("order.paid").concurrency(ConcurrencyPolicy::Forbid)).await;
    emit(&bed, "order.paid").await;
    emit(&bed, "order.paid").await;
    bed.pass(seconds(0)).await;
    assert_eq!(bed.runs("it").await.len(), 1, "two at once are not allowed");
    let running = bed.start_one().await;
    emit(&bed, "order.paid").await;
    bed.pass(seconds(0)).await;
    assert_eq!(bed.runs("it").await.len(), 1);
    let notices = bed.notices().await;
    assert_eq!(notices.iter().map(|notice| notice.count).collect::<Vec<_>>(), [1, 1], "{notices:?}");
    use weaver_core::queue::QueueExt;
    bed.store.mark_succeeded(&running, None).await.expect("the lease is valid");
    bed.pass(seconds(60)).await;
    assert_eq!(bed.runs("it").await.len(), 1, "skipped is skipped");
    emit(&bed, "order.paid").await;
    bed.pass(seconds(0)).await;
    assert_eq!(bed.runs("it").await.len(), 2);
}

async fn a_definition_that_replaces_runs_the_newest_event(bed: Bed) {
    bed.add("it", on("order.paid").concurrency(ConcurrencyPolicy::Replace)).await;
    emit(&bed, "order.paid").await;
    bed.pass(seconds(0)).await;
    bed.start_one().await;
    emit(&bed, "order.paid").await;
    let newest = emit(&bed, "order.paid").await;
    bed.pass(seconds(0)).await;
    let runs = bed.runs("it").await;
    assert_eq!(bed.states("it").await, [TaskState::Cancelled, TaskState::Queued]);
    let key = runs[1].spec.idempotency_key.as_ref().map(ToString::to_string);
    assert_eq!(key, Some(format!("event:it:{newest}")));
    let kinds: Vec<NoticeKind> = bed.notices().await.iter().map(|notice| notice.what).collect();
    assert_eq!(kinds, [NoticeKind::Skipped, NoticeKind::Replaced]);
}

async fn a_definition_that_waits_for_another_type_is_found_by_that_one(bed: Bed) {
    let added = bed.add("it", on("order.paid")).await;
    bed.scheduler.edit(&bed.space, "it", added.version, on("order.sent")).await.expect("it is that version");
    emit(&bed, "order.paid").await;
    emit(&bed, "order.sent").await;
    bed.pass(seconds(0)).await;
    assert_eq!(bed.runs("it").await.len(), 1);
    bed.scheduler.remove(&bed.space, "it", None).await.expect("it is there");
    emit(&bed, "order.sent").await;
    bed.pass(seconds(0)).await;
    assert_eq!(bed.runs("it").await.len(), 1);
}

async fn an_event_that_is_not_valid_is_refused_with_the_field(bed: Bed) {
    for (event, field) in [
        (NewEvent::new(""), "event_type"),
        (NewEvent::new("t").dedupe_key("x".repeat(161)), "dedupe_key"),
        (NewEvent::new("t").payload(json!("x".repeat(70_000))), "payload"),
    ] {
        let refused = bed.scheduler.emit(&bed.space, event).await.expect_err("it is not valid");
        let SchedulerError::Invalid(invalid) = &refused else { panic!("{refused:?}") };
        assert_eq!(invalid.field, field);
    }
}

async fn processed_events_go_after_their_retention_and_unprocessed_ones_stay(bed: Bed) {
    let old = emit(&bed, "order.paid").await;
    bed.pass(seconds(0)).await;
    let unprocessed = emit(&bed, "order.paid").await;
    bed.clock.advance(seconds(6 * 24 * 3600));
    bed.scheduler.sweep().await.expect("the store answers");
    assert!(bed.scheduler.event(&bed.space, &old).await.expect("the store answers").is_some(), "too early");
    bed.clock.advance(seconds(25 * 3600));
    assert_eq!(bed.scheduler.sweep().await, Ok((1, false)));
    assert_eq!(bed.scheduler.event(&bed.space, &old).await, Ok(None));
    let kept = bed.scheduler.event(&bed.space, &unprocessed).await.expect("the store answers");
    assert_eq!(kept.expect("it is not processed").processed_at, None);
    bed.pass(seconds(0)).await;
    bed.clock.advance(seconds(3601));
    assert_eq!(bed.scheduler.sweep().await, Ok((1, false)), "processed since, and old");
}

async fn more_events_than_one_tick_takes_are_processed_by_the_next_ones(bed: Bed) {
    bed.scheduler.settings().put("scheduler.batch_max", json!(2), None).await.expect("it is valid");
    bed.add("it", on("order.paid")).await;
    let events = (0..5).map(|number| NewEvent::new("order.paid").dedupe_key(format!("e-{number}")));
    bed.scheduler.emit_all(&bed.space, events.collect()).await.expect("they are valid");
    let ticked = bed.scheduler.tick().await.expect("the store answers");
    assert_eq!((ticked.events, ticked.more), (2, true));
    bed.settle(&bed.scheduler).await;
    assert_eq!(bed.runs("it").await.len(), 5);
}
