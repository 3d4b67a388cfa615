//! Seed 004, JobRun: the table 1.2 状態遷移の許可表 of `state`, its 「逆戻り」は禁止 (no going back), and
//! `continuation_state`.

use weaver_core::lifecycle::Verb;
use weaver_core::lifecycle::table::{ENTRY, RULES};
use weaver_core::projection::job_run::{ADDITIONS, ALLOWED, ContinuationState, State};
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, Continuation, TaskState};
use weaver_core::time::Timestamp;

/// The document's table, line by line, in its order.
const SEED: [(&[&str], &[&str]); 6] = [
    (&["PENDING"], &["ASSIGNED"]),
    (&["ASSIGNED"], &["RUNNING"]),
    (&["RUNNING"], &["SUCCEEDED", "FAILED", "TIMED_OUT"]),
    (&["ASSIGNED", "RUNNING"], &["CANCELED"]),
    (&["ASSIGNED"], &["ORPHANED"]),
    (&["ORPHANED"], &["ASSIGNED"]),
];

#[test]
fn the_table_of_seed_004_is_the_one_of_the_document() {
    for from in State::ALL {
        for to in State::ALL {
            let written = |(left, right): &(&[&str], &[&str])| {
                left.contains(&from.as_str()) && right.contains(&to.as_str())
            };
            assert_eq!(ALLOWED.contains(&(*from, *to)), SEED.iter().any(written), "{from} → {to}");
        }
    }
}

#[test]
fn the_additions_to_seed_004_are_these_and_no_others() {
    let added: Vec<_> = ADDITIONS.iter().map(|more| (more.from.as_str(), more.to.as_str())).collect();
    assert_eq!(
        added,
        [
            ("PENDING", "CANCELED"),
            ("ORPHANED", "CANCELED"),
            ("PENDING", "RUNNING"),
            ("ORPHANED", "TIMED_OUT"),
            ("ORPHANED", "RETRY_SCHEDULED"),
            ("RUNNING", "RETRY_SCHEDULED"),
            ("RETRY_SCHEDULED", "RUNNING"),
            ("RETRY_SCHEDULED", "ASSIGNED"),
            ("RETRY_SCHEDULED", "CANCELED"),
        ]
    );
}

#[test]
fn every_pair_of_seed_004_is_made_by_a_rule_exactly_if_it_is_allowed() {
    // The cause a task has before a move shows in no word that anything leaves.
    let made = RULES
        .iter()
        .map(|rule| (State::project(rule.from, None), State::project(rule.to, rule.cause)))
        .collect();
    crate::assert_square(State::ALL, ALLOWED, ADDITIONS, &made);
}

#[test]
fn every_pair_of_seed_004_is_made_by_a_record_exactly_if_it_is_allowed() {
    crate::assert_square(State::ALL, ALLOWED, ADDITIONS, &crate::pairs_of_records(State::of));
}

/// How far an attempt is. Within one attempt this number never falls.
fn progress(state: State) -> u8 {
    match state {
        State::Pending => 0,
        State::Assigned => 1,
        State::Running => 2,
        State::Orphaned | State::RetryScheduled => 3,
        State::Succeeded | State::Failed | State::TimedOut | State::Canceled => 4,
    }
}

#[test]
fn no_rule_goes_back_unless_it_begins_another_attempt() {
    for rule in RULES {
        let (from, to) = (State::project(rule.from, None), State::project(rule.to, rule.cause));
        let begins = matches!(rule.verb, Verb::Lease | Verb::Assign);
        assert!(begins || progress(to) >= progress(from), "{rule:?}: {from} → {to}");
    }
}

#[test]
fn no_record_goes_back_unless_its_attempt_grows() {
    let mut back = std::collections::BTreeSet::new();
    for (before, after) in crate::moves() {
        let (from, to) = (State::of(&before), State::of(&after));
        if progress(to) < progress(from) {
            assert_eq!(after.attempt, before.attempt + 1, "{from} → {to}");
            back.insert((from.as_str(), to.as_str()));
        }
    }
    let expected =
        [("ORPHANED", "ASSIGNED"), ("RETRY_SCHEDULED", "ASSIGNED"), ("RETRY_SCHEDULED", "RUNNING")];
    assert_eq!(back, expected.into());
}

#[test]
fn every_attempt_is_closed_by_a_move_that_the_seed_itself_allows() {
    let mut closed = 0;
    for (before, after) in crate::moves() {
        if after.attempts.len() == before.attempts.len() {
            continue;
        }
        let ended = after.attempts.last().unwrap();
        let pair = (State::of(&before), State::closing(ended.outcome));
        assert!(ALLOWED.contains(&pair), "{} → {}", pair.0, pair.1);
        closed += 1;
    }
    assert!(closed > 0);
}

#[test]
fn the_closing_words_are_the_ones_of_the_design() {
    let design = [
        (AttemptOutcome::Succeeded, "SUCCEEDED"),
        (AttemptOutcome::Failed, "FAILED"),
        (AttemptOutcome::TimedOut, "TIMED_OUT"),
        (AttemptOutcome::Lost, "TIMED_OUT"),
        (AttemptOutcome::Released, "CANCELED"),
        (AttemptOutcome::Snoozed, "CANCELED"),
        (AttemptOutcome::Cancelled, "CANCELED"),
        (AttemptOutcome::Orphaned, "ORPHANED"),
    ];
    for (outcome, word) in design {
        assert_eq!(State::closing(outcome).as_str(), word, "{outcome:?}");
    }
}

#[test]
fn the_words_of_the_states_are_the_ones_of_the_design() {
    let design = [
        (TaskState::Queued, None, "PENDING"),
        (TaskState::Scheduled, None, "PENDING"),
        (TaskState::Assigned, None, "ASSIGNED"),
        (TaskState::Orphaned, None, "ORPHANED"),
        (TaskState::Running, None, "RUNNING"),
        (TaskState::RetryScheduled, Some(Cause::Lost), "RETRY_SCHEDULED"),
        (TaskState::Succeeded, None, "SUCCEEDED"),
        (TaskState::Dead, Some(Cause::Failed), "FAILED"),
        (TaskState::Dead, Some(Cause::TimedOut), "TIMED_OUT"),
        (TaskState::Dead, Some(Cause::Lost), "TIMED_OUT"),
        (TaskState::Cancelled, Some(Cause::Cancelled(CancelReason::User)), "CANCELED"),
    ];
    for (state, cause, word) in design {
        assert_eq!(State::project(state, cause).as_str(), word, "{state} {cause:?}");
    }
    assert!(ENTRY.iter().all(|state| State::project(*state, None) == State::Pending));
}

#[test]
fn a_confirming_worker_reads_as_confirming_and_its_run_as_running() {
    let doubt = Continuation::Confirming { check_deadline_at: Timestamp::MAX };
    assert_eq!(ContinuationState::of(doubt).as_str(), "CONFIRMING");
    assert_eq!(ContinuationState::of(Continuation::None).as_str(), "NONE");
    // Confirming is no part of the state: see `a_worker_that_is_confirming_keeps_its_lease` among the tests
    // of the lifecycle.
    assert_eq!(State::project(TaskState::Running, None), State::Running);
}
