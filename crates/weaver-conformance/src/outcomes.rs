//! G2, reporting an outcome: a repeated report counts once; a different report is stale.

use weaver_core::id::{Epoch, LeaseToken, TaskId, Version};
use weaver_core::lease::{Lease, Leased};
use weaver_core::lifecycle::{Command, Refused, decide};
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::queue::Committed;
use weaver_core::task::TaskState;

use super::cases;
use weaver_testkit::harness::{Harness, end_of, seconds, task};

async fn an_outcome_is_answered_with_the_new_version(harness: Harness) {
    let leased = running(&harness).await;
    let answer = harness.finish(&leased, Outcome::DONE).await;
    assert_eq!(answer, Committed::Applied { version: Version(3) });
    assert_eq!(harness.record(&leased.lease.key).await.version, Version(3));
}

async fn the_same_outcome_twice_was_already_applied(harness: Harness) {
    for outcome in every_outcome() {
        let leased = running(&harness).await;
        harness.end(&leased, outcome.clone()).await;
        let before = harness.record(&leased.lease.key).await;
        harness.advance(seconds(1)).await;
        assert_eq!(harness.finish(&leased, outcome.clone()).await, Committed::AlreadyApplied, "{outcome:?}");
        assert_eq!(harness.record(&leased.lease.key).await, before);
        finish_everything(&harness).await;
    }
}

async fn the_same_outcome_twice_was_already_applied_even_after_later_transitions(harness: Harness) {
    let snoozed = Outcome::Snoozed { delay: seconds(1) };
    let failed = Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(1)) };
    for outcome in [failed, Outcome::Released, snoozed] {
        let leased = running(&harness).await;
        harness.end(&leased, outcome.clone()).await;
        harness.advance(seconds(1)).await;
        let again = harness.lease_one().await;
        assert_eq!(harness.finish(&leased, outcome.clone()).await, Committed::AlreadyApplied, "{outcome:?}");
        assert_eq!(harness.record(&leased.lease.key).await, again.record);
        harness.succeed(&again).await;
        assert_eq!(harness.finish(&leased, outcome).await, Committed::AlreadyApplied);
    }
}

async fn the_same_outcome_twice_in_one_batch_counts_once(harness: Harness) {
    let leased = running(&harness).await;
    let end = end_of(&leased, Outcome::failed("no"));
    let answers = harness.store.commit(vec![end.clone(), end], None).await.expect("the store answers");
    assert_eq!(answers, [Committed::Applied { version: Version(3) }, Committed::AlreadyApplied]);
    assert_eq!(harness.record(&leased.lease.key).await.failures, 1);
}

async fn a_second_outcome_is_stale(harness: Harness) {
    for first in every_outcome() {
        for second in every_outcome().into_iter().filter(|second| *second != first) {
            let leased = running(&harness).await;
            harness.end(&leased, first.clone()).await;
            let before = harness.record(&leased.lease.key).await;
            let answer = harness.finish(&leased, second.clone()).await;
            assert_eq!(answer, Committed::Stale, "{first:?}, then {second:?}");
            assert_eq!(harness.record(&leased.lease.key).await, before);
            finish_everything(&harness).await;
        }
    }
}

async fn a_second_outcome_is_stale_even_after_later_transitions(harness: Harness) {
    let leased = running(&harness).await;
    harness.end(&leased, Outcome::Released).await;
    let again = harness.lease_one().await;
    for outcome in every_outcome().into_iter().filter(|outcome| *outcome != Outcome::Released) {
        assert_eq!(harness.finish(&leased, outcome).await, Committed::Stale);
    }
    assert_eq!(harness.record(&leased.lease.key).await, again.record);
    harness.succeed(&again).await;
}

async fn a_batch_of_outcomes_is_answered_in_order_and_each_independently(harness: Harness) {
    harness.enqueue_all(vec![task(); 4]).await;
    let leased = harness.lease(4).await;
    harness.end(&leased[1], Outcome::fatal("no")).await;
    harness.succeed(&leased[3]).await;
    let ends = leased.iter().map(|leased| end_of(leased, Outcome::DONE)).collect();
    let answers = harness.store.commit(ends, None).await.expect("the store answers");
    let applied = Committed::Applied { version: Version(3) };
    assert_eq!(answers, [applied.clone(), Committed::Stale, applied, Committed::AlreadyApplied]);
}

async fn an_empty_batch_of_ends_is_fine(harness: Harness) {
    assert!(harness.store.commit(vec![], None).await.expect("nothing is wrong with it").is_empty());
}

async fn the_outcome_of_an_unknown_task_is_stale(harness: Harness) {
    let leased = running(&harness).await;
    let mut end = end_of(&leased, Outcome::DONE);
    end.key.id = TaskId(end.key.id.0 + 1000);
    assert_eq!(harness.commit_one(end).await, Committed::Stale);
}

async fn an_outcome_under_a_lease_that_differs_in_any_field_is_refused(harness: Harness) {
    let leased = running(&harness).await;
    let lease = leased.lease.clone();
    let other_key = weaver_core::id::TaskKey::new(lease.key.namespace.clone(), TaskId(u64::MAX));
    let forged = [
        Lease { token: LeaseToken(u128::MAX), ..lease.clone() },
        Lease { version: Version(1), ..lease.clone() },
        Lease { epoch: Epoch(1), ..lease.clone() },
        Lease { key: other_key, ..lease.clone() },
    ];
    for lease in forged {
        let command = Command::Finish { lease, outcome: Outcome::DONE };
        let answer = decide(&harness.record(&leased.lease.key).await, command, harness.now().await);
        assert_eq!(answer, Err(Refused::LeaseLost));
    }
}

async fn of_two_concurrent_reports_one_wins(harness: Harness) {
    for _ in 0..20 {
        let leased = running(&harness).await;
        let reports = [Outcome::DONE, Outcome::fatal("no")].map(|outcome| {
            let (other, leased) = (harness.clone(), leased.clone());
            harness.spawn(async move { other.finish(&leased, outcome).await })
        });
        let mut answers = Vec::new();
        for report in reports {
            answers.push(report.await.expect("no panic"));
        }
        let stale = answers.iter().filter(|answer| **answer == Committed::Stale).count();
        assert_eq!(stale, 1, "{answers:?}");
        assert_eq!(harness.record(&leased.lease.key).await.version, Version(3));
    }
}

/// One of each outcome.
fn every_outcome() -> Vec<Outcome> {
    vec![
        Outcome::Succeeded { result: None },
        Outcome::failed("no"),
        Outcome::fatal("never"),
        Outcome::TimedOut,
        Outcome::Snoozed { delay: seconds(1) },
        Outcome::Cancelled { message: "no".into() },
        Outcome::Released,
    ]
}

async fn running(harness: &Harness) -> Leased {
    harness.enqueue(task()).await;
    harness.lease_one().await
}

/// Leaves nothing waiting for the next round.
async fn finish_everything(harness: &Harness) {
    harness.advance(seconds(3600)).await;
    for leased in harness.lease(10).await {
        harness.succeed(&leased).await;
        assert_eq!(harness.record(&leased.lease.key).await.state, TaskState::Succeeded);
    }
}

cases![
    an_outcome_is_answered_with_the_new_version,
    the_same_outcome_twice_was_already_applied,
    the_same_outcome_twice_was_already_applied_even_after_later_transitions,
    the_same_outcome_twice_in_one_batch_counts_once,
    a_second_outcome_is_stale,
    a_second_outcome_is_stale_even_after_later_transitions,
    a_batch_of_outcomes_is_answered_in_order_and_each_independently,
    an_empty_batch_of_ends_is_fine,
    the_outcome_of_an_unknown_task_is_stale,
    an_outcome_under_a_lease_that_differs_in_any_field_is_refused,
    of_two_concurrent_reports_one_wins,
];
