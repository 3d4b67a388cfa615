//! After a long stop: the policy decides, and the log says what became of the fires, and why.

use weaver_scheduler::definition::NoticeKind;
use weaver_scheduler::misfire::Misfire;

use crate::bed::{Bed, cases, every, seconds};

cases![
    after_a_stop_run_once_makes_one_run_and_says_how_many_it_stands_for,
    after_a_stop_run_all_makes_each_up_to_its_limit_and_says_how_many_are_left_out,
    after_a_stop_skip_after_leaves_out_what_is_too_late_and_says_how_many,
    a_fire_that_is_not_missed_is_not_in_the_log,
];

async fn after_a_stop_run_once_makes_one_run_and_says_how_many_it_stands_for(bed: Bed) {
    bed.add("it", every("10m").misfire(Misfire::RunOnce)).await;
    bed.pass(seconds(65 * 60)).await;
    assert_eq!(bed.instants("it").await, ["01:00:00"]);
    let notices = bed.notices().await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!((notices[0].what, notices[0].count, notices[0].is_exact), (NoticeKind::Merged, 5, true));
    assert!(notices[0].why.contains("5 fires") && notices[0].why.contains("run_once"), "{}", notices[0].why);
    let definition = bed.get("it").await;
    assert_eq!(definition.last_notice.as_ref(), notices.first());
    assert_eq!(definition.next_fire_at, Some(bed.now().saturating_add(seconds(300))));
}

async fn after_a_stop_run_all_makes_each_up_to_its_limit_and_says_how_many_are_left_out(bed: Bed) {
    bed.add("it", every("10m").misfire(Misfire::RunAll { max: 3 })).await;
    bed.add("all", every("10m").misfire(Misfire::RunAll { max: 100 })).await;
    bed.pass(seconds(65 * 60)).await;
    assert_eq!(bed.instants("it").await, ["00:40:00", "00:50:00", "01:00:00"]);
    assert_eq!(bed.instants("all").await.len(), 6);
    let notices = bed.notices().await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!((notices[0].what, notices[0].count), (NoticeKind::Skipped, 3));
}

async fn after_a_stop_skip_after_leaves_out_what_is_too_late_and_says_how_many(bed: Bed) {
    bed.add("it", every("10m").misfire(Misfire::SkipAfter { seconds: 900 })).await;
    bed.pass(seconds(65 * 60)).await;
    assert_eq!(bed.instants("it").await, ["00:50:00", "01:00:00"]);
    let notices = bed.notices().await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!((notices[0].what, notices[0].count), (NoticeKind::Skipped, 4));
    assert!(notices[0].why.contains("900 s of policy skip_after"), "{}", notices[0].why);
}

async fn a_fire_that_is_not_missed_is_not_in_the_log(bed: Bed) {
    bed.add("it", every("10m")).await;
    bed.pass(seconds(600)).await;
    bed.pass(seconds(601)).await;
    assert_eq!((bed.runs("it").await.len(), bed.notices().await.len()), (2, 0));
}
