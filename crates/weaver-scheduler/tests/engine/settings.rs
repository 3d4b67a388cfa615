//! Settings: changed at run time, on every node, without a restart.

use std::sync::Arc;

use serde_json::json;
use weaver_scheduler::SchedulerError;

use crate::harness::{Harness, cases, every, scheduler, seconds};

cases![
    a_setting_that_one_node_changes_holds_on_another_after_its_next_reload,
    while_the_scheduler_is_paused_nothing_fires_and_afterwards_the_policy_decides,
    two_people_who_change_a_setting_at_once_do_not_overwrite_each_other,
    a_setting_can_be_reset_to_its_default,
];

async fn a_setting_that_one_node_changes_holds_on_another_after_its_next_reload(harness: Harness) {
    let other = scheduler(harness.another_store().await, Arc::new(harness.clock.clone()), "other");
    let changes = other.settings().subscribe();
    let change = harness.scheduler.settings().put("events.retention_hours", json!(5), None).await;
    assert_eq!(change.expect("it is valid").before, json!(168));
    other.settings().reload().await.expect("the store answers");
    assert!(changes.has_changed().expect("it is there"));
    assert_eq!(other.settings().current().events_retention, seconds(5 * 3600));
    let read = other.settings().get("events.retention_hours").await.expect("it is known");
    assert_eq!((read.value, read.default), (json!(5), json!(168)));
}

async fn while_the_scheduler_is_paused_nothing_fires_and_afterwards_the_policy_decides(harness: Harness) {
    harness.add("it", every("1m")).await;
    harness.scheduler.settings().put("scheduler.paused", json!(true), None).await.expect("it is valid");
    harness.pass(seconds(300)).await;
    assert_eq!(harness.runs("it").await.len(), 0);
    harness.scheduler.settings().put("scheduler.paused", json!(false), None).await.expect("it is valid");
    harness.pass(seconds(0)).await;
    assert_eq!(harness.instants("it").await, ["00:05:00"]);
    assert_eq!(harness.notices().await[0].count, 4);
}

async fn two_people_who_change_a_setting_at_once_do_not_overwrite_each_other(harness: Harness) {
    let settings = harness.scheduler.settings();
    let before = settings.get("scheduler.batch_max").await.expect("it is known").version;
    let first =
        settings.put("scheduler.batch_max", json!(10), Some(before)).await.expect("it is still that version");
    let late = settings.put("scheduler.batch_max", json!(20), Some(before)).await;
    assert!(matches!(late, Err(SchedulerError::Stale { found, .. }) if found == first.version), "{late:?}");
    assert_eq!(settings.current().batch_max, 10);
}

async fn a_setting_can_be_reset_to_its_default(harness: Harness) {
    let settings = harness.scheduler.settings();
    settings.put("scheduler.poll_interval_ms", json!(50), None).await.expect("it is valid");
    let change = settings.reset("scheduler.poll_interval_ms", None).await.expect("it is known");
    assert_eq!((change.before, change.after), (json!(50), json!(1000)));
    assert_eq!(settings.current().poll_interval, seconds(1));
}
