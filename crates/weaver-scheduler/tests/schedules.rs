//! Schedules as people write them: what is accepted, what is refused, and the error messages.

use std::sync::Arc;

use serde_json::json;
use weaver_core::clock::ManualClock;
use weaver_core::name::Namespace;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{Definition, DefinitionSpec, TaskTemplate};
use weaver_scheduler::{Options, Scheduler, SchedulerError};

fn scheduler() -> (Scheduler, ManualClock) {
    let clock = ManualClock::default();
    let store = Arc::new(InMemoryQueue::new(Arc::new(clock.clone())));
    (Scheduler::new(store, Arc::new(clock.clone()), Options { node: "test".to_owned() }), clock)
}

fn nightly() -> DefinitionSpec {
    DefinitionSpec::timed(ScheduleSpec::new("daily at 02:30").tz("UTC"), TaskTemplate::new("backup"))
}

async fn refused(spec: DefinitionSpec) -> String {
    let (scheduler, _) = scheduler();
    scheduler.add(&Namespace::default(), "nightly", spec).await.expect_err("it is refused").to_string()
}

#[tokio::test]
async fn a_schedule_is_read_as_it_was_added_with_its_next_fire() {
    let (scheduler, _) = scheduler();
    let added = scheduler.add(&Namespace::default(), "nightly", nightly()).await.unwrap();
    let read = scheduler.get(&Namespace::default(), "nightly").await.unwrap();
    assert_eq!(read, added);
    assert_eq!(read.next_fire_at.unwrap().to_string(), "2026-01-01T02:30:00.000000Z");
    let listed = scheduler.list(&Namespace::default(), "", None, 10).await.unwrap().items;
    assert_eq!(listed, [read]);
}

#[tokio::test]
async fn upcoming_schedules_are_listed_soonest_first_and_a_check_stores_nothing() {
    let (scheduler, _) = scheduler();
    let (space, other) = (Namespace::default(), Namespace::new("other").unwrap());
    let every = |span: &str| DefinitionSpec::timed(ScheduleSpec::new(span), TaskTemplate::new("t"));
    for (namespace, name, span) in
        [(&space, "slow", "every 9m"), (&other, "theirs", "every 1m"), (&space, "quick", "every 2m")]
    {
        scheduler.add(namespace, name, every(span)).await.unwrap();
    }
    scheduler.add(&space, "off", every("every 1m")).await.unwrap();
    scheduler.disable(&space, "off", None).await.unwrap();
    scheduler.add(&space, "event", DefinitionSpec::on_event("paid", TaskTemplate::new("t"))).await.unwrap();
    let names = async |looked_at| {
        let found = scheduler.upcoming(&space, looked_at).await.unwrap();
        found.into_iter().map(|definition| definition.name).collect::<Vec<_>>()
    };
    assert_eq!(names(10).await, ["quick", "slow"]);
    assert_eq!(names(2).await, ["quick"], "the other of the next two is another namespace's");
    scheduler.check("new", &every("every 1m")).unwrap();
    let refused = scheduler.check("new", &every("every 1x")).unwrap_err();
    assert!(matches!(refused, SchedulerError::Schedule(_)), "{refused:?}");
    assert!(matches!(scheduler.get(&space, "new").await, Err(SchedulerError::NotFound { .. })));
}

#[tokio::test]
async fn a_second_schedule_of_a_name_is_refused() {
    let (scheduler, _) = scheduler();
    let Definition { version, .. } =
        scheduler.add(&Namespace::default(), "nightly", nightly()).await.unwrap();
    let again = scheduler.add(&Namespace::default(), "nightly", nightly()).await;
    assert_eq!(again, Err(SchedulerError::Exists { name: "nightly".to_owned(), version }));
}

#[tokio::test]
async fn two_people_editing_at_once_do_not_overwrite_each_other() {
    let (scheduler, _) = scheduler();
    let space = Namespace::default();
    let first = scheduler.add(&space, "nightly", nightly()).await.unwrap();
    let mut spec = nightly();
    spec.task.priority = Some(1);
    let second = scheduler.edit(&space, "nightly", first.version, spec).await.unwrap();
    let late = scheduler.edit(&space, "nightly", first.version, nightly()).await.unwrap_err();
    assert!(late.to_string().contains("read it again and repeat the change"), "{late}");
    assert_eq!(scheduler.get(&space, "nightly").await.unwrap(), second);
    let late = scheduler.remove(&space, "nightly", Some(first.version)).await.unwrap_err();
    assert!(matches!(late, SchedulerError::Stale { .. }), "{late}");
}

#[tokio::test]
async fn a_schedule_is_disabled_enabled_and_removed() {
    let (scheduler, _) = scheduler();
    let space = Namespace::default();
    scheduler.add(&space, "nightly", nightly()).await.unwrap();
    let disabled = scheduler.disable(&space, "nightly", None).await.unwrap();
    assert_eq!((disabled.spec.enabled, disabled.next_fire_at), (false, None));
    let enabled = scheduler.enable(&space, "nightly", Some(disabled.version)).await.unwrap();
    assert!(enabled.spec.enabled && enabled.next_fire_at.is_some());
    scheduler.remove(&space, "nightly", Some(enabled.version)).await.unwrap();
    let removed = scheduler.get(&space, "nightly").await.unwrap_err();
    assert!(matches!(removed, SchedulerError::NotFound { .. }), "{removed}");
}

#[tokio::test]
async fn a_schedule_that_could_not_fire_is_refused_when_it_is_written() {
    let mut spec = nightly();
    spec.task.priority = Some(12);
    assert_eq!(refused(spec).await, "task.priority: is 12; it must be between 0 and 9");
    let no_zone = DefinitionSpec::timed(ScheduleSpec::new("daily at 02:30"), TaskTemplate::new("backup"));
    assert!(refused(no_zone).await.starts_with("tz: "));
    let over = ScheduleSpec::new("once at 2020-01-01T00:00:00Z");
    let over = refused(DefinitionSpec::timed(over, TaskTemplate::new("backup"))).await;
    assert!(over.contains("never fires") && over.contains("choose a future time"), "{over}");
    let mut spec = nightly();
    spec.task.event_field = Some("event".to_owned());
    assert_eq!(refused(spec).await, "task.event_field: a time trigger has no event; omit it");
}

#[test]
fn a_schedule_is_data_and_unknown_fields_are_refused() {
    let text = json!({
        "trigger": {"kind": "time", "schedule": "0 3 * * *", "tz": "Europe/Berlin", "gap": "skip"},
        "task": {"type": "backup", "payload": {"to": "disk"}, "backoff": {"kind": "fixed", "delay_ms": 5}},
        "concurrency_policy": "forbid",
        "misfire": {"kind": "skip_after", "seconds": 60}
    });
    let spec: DefinitionSpec = serde_json::from_value(text.clone()).unwrap();
    assert!(spec.enabled);
    let back = serde_json::to_value(&spec).unwrap();
    assert_eq!(back["trigger"], text["trigger"]);
    assert_eq!(serde_json::from_value::<DefinitionSpec>(back).unwrap(), spec);
    let mistyped =
        json!({"trigger": {"kind": "time", "schedule": "every 5m", "zone": "UTC"}, "task": {"type": "t"}});
    let error = serde_json::from_value::<DefinitionSpec>(mistyped).unwrap_err().to_string();
    assert!(error.contains("zone"), "{error}");
}

#[tokio::test]
async fn a_setting_is_validated_and_its_change_reports_the_old_value() {
    let (scheduler, _) = scheduler();
    let settings = scheduler.settings();
    let mut changes = settings.subscribe();
    let change = settings.put("scheduler.poll_interval_ms", json!(200), None).await.unwrap();
    assert_eq!((change.before, change.after), (json!(1000), json!(200)));
    assert!(changes.has_changed().unwrap());
    assert_eq!(changes.borrow_and_update().poll_interval.as_millis(), 200);
    let refused =
        settings.put("scheduler.poll_interval_ms", json!("fast"), None).await.unwrap_err().to_string();
    assert!(refused.contains("a whole number between 50 and 60000"), "{refused}");
    let unknown = settings.put("scheduler.poll_interval", json!(1), None).await.unwrap_err().to_string();
    assert!(unknown.contains("did you mean `scheduler.poll_interval_ms`?"), "{unknown}");
    let stale = settings.put("scheduler.poll_interval_ms", json!(300), Some(change.version.next())).await;
    assert!(matches!(stale, Err(SchedulerError::Stale { .. })), "{stale:?}");
}

#[tokio::test]
async fn an_event_with_a_known_key_is_the_first_one() {
    use weaver_scheduler::event::NewEvent;
    let (scheduler, _) = scheduler();
    let space = Namespace::default();
    let event = NewEvent::new("order.paid").dedupe_key("order-1");
    assert!(!scheduler.emit(&space, event.clone()).await.unwrap().existing);
    assert!(scheduler.emit(&space, event.clone()).await.unwrap().existing);
    let elsewhere = Namespace::new("other").unwrap();
    assert!(!scheduler.emit(&elsewhere, event).await.unwrap().existing);
    let stored = scheduler.event(&space, "order-1").await.unwrap().unwrap();
    assert_eq!((stored.event_type.as_str(), stored.processed_at), ("order.paid", None));
}
