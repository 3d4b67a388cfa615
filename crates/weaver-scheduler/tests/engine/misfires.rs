//! After a downtime: the misfire policy decides, and a notice says what happened to missed runs, and why.

use weaver_scheduler::definition::NoticeKind;
use weaver_scheduler::misfire::Misfire;

use crate::harness::{Harness, cases, every, seconds};

cases![
    after_downtime_run_once_creates_one_run_and_reports_how_many_it_merges,
    after_downtime_run_all_creates_each_up_to_its_limit_and_reports_the_skipped,
    after_downtime_skip_after_skips_late_runs_and_reports_how_many,
    a_run_that_is_not_missed_causes_no_notice,
];

async fn after_downtime_run_once_creates_one_run_and_reports_how_many_it_merges(harness: Harness) {
    harness.add("it", every("10m").misfire(Misfire::RunOnce)).await;
    harness.pass(seconds(65 * 60)).await;
    assert_eq!(harness.instants("it").await, ["01:00:00"]);
    let notices = harness.notices().await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!((notices[0].kind, notices[0].count, notices[0].is_exact), (NoticeKind::Merged, 5, true));
    assert!(
        notices[0].reason.contains("5 missed runs") && notices[0].reason.contains("run_once"),
        "{}",
        notices[0].reason
    );
    let definition = harness.get("it").await;
    assert_eq!(definition.last_notice.as_ref(), notices.first());
    assert_eq!(definition.next_fire_at, Some(harness.now().saturating_add(seconds(300))));
}

async fn after_downtime_run_all_creates_each_up_to_its_limit_and_reports_the_skipped(harness: Harness) {
    harness.add("it", every("10m").misfire(Misfire::RunAll { max: 3 })).await;
    harness.add("all", every("10m").misfire(Misfire::RunAll { max: 100 })).await;
    harness.pass(seconds(65 * 60)).await;
    assert_eq!(harness.instants("it").await, ["00:40:00", "00:50:00", "01:00:00"]);
    assert_eq!(harness.instants("all").await.len(), 6);
    let notices = harness.notices().await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!((notices[0].kind, notices[0].count), (NoticeKind::Skipped, 3));
}

async fn after_downtime_skip_after_skips_late_runs_and_reports_how_many(harness: Harness) {
    harness.add("it", every("10m").misfire(Misfire::SkipAfter { seconds: 900 })).await;
    harness.pass(seconds(65 * 60)).await;
    assert_eq!(harness.instants("it").await, ["00:50:00", "01:00:00"]);
    let notices = harness.notices().await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!((notices[0].kind, notices[0].count), (NoticeKind::Skipped, 4));
    assert!(notices[0].reason.contains("900 s of policy skip_after"), "{}", notices[0].reason);
}

async fn a_run_that_is_not_missed_causes_no_notice(harness: Harness) {
    harness.add("it", every("10m")).await;
    harness.pass(seconds(600)).await;
    harness.pass(seconds(601)).await;
    assert_eq!((harness.runs("it").await.len(), harness.notices().await.len()), (2, 0));
}
