//! G4, terminal is final: a terminal task makes no transition, whatever the command and whenever it was
//! decided.

use weaver_core::id::{Epoch, LeaseToken, TaskKey};
use weaver_core::lease::{Leased, Renewed};
use weaver_core::lifecycle::{Command, Grant, OrphanCause, OverdueReason, Refused, Transition, decide};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{CancelReason, Cause, TaskState};

use super::cases;
use weaver_testkit::harness::{Harness, end_of, seconds, task, worker};

/// The three terminal outcomes without a cancellation hold.
fn ends() -> [(Outcome, TaskState); 3] {
    let cancelled = Outcome::Cancelled { message: "no".into() };
    [
        (Outcome::DONE, TaskState::Succeeded),
        (Outcome::fatal("no"), TaskState::Dead),
        (cancelled, TaskState::Cancelled),
    ]
}

async fn every_command_on_a_task_that_has_ended_is_refused(harness: Harness) {
    for (outcome, state) in ends() {
        let leased = ended(&harness, outcome).await;
        let record = harness.record(&leased.lease.key).await;
        assert_eq!(record.state, state);
        for command in every_command() {
            let answer = decide(&record, command, harness.now().await);
            assert_eq!(answer, Err(Refused::Ended { state }));
        }
    }
}

async fn every_outcome_for_a_finished_task_is_refused(harness: Harness) {
    for (outcome, _) in ends() {
        let leased = ended(&harness, outcome).await;
        let record = harness.record(&leased.lease.key).await;
        for (outcome, _) in ends() {
            let command = Command::Finish { lease: leased.lease.clone(), outcome };
            assert_eq!(decide(&record, command, harness.now().await), Err(Refused::LeaseLost));
        }
    }
}

async fn a_decision_made_while_it_ran_is_stale_after_it_finished(harness: Harness) {
    for (outcome, state) in ends() {
        harness.enqueue(task()).await;
        let leased = harness.lease_one().await;
        let decided = decided_while_running(&leased);
        harness.end(&leased, outcome).await;
        for transition in decided.into_iter().filter(|transition| transition.to != state) {
            expect_stale(&harness, transition).await;
        }
    }
}

async fn a_users_cancel_is_stale_after_the_handlers_own(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let by_user = harness.decided(&key, Command::Cancel).await;
    harness.end(&leased, Outcome::Cancelled { message: "no".into() }).await;
    expect_stale(&harness, by_user).await;
    assert_eq!(harness.record(&key).await.cause, Some(Cause::Cancelled(CancelReason::Handler)));
}

async fn a_decision_made_while_it_waited_is_stale_after_it_finished(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(10))).await;
    harness.advance(seconds(20)).await;
    let mut decided = Vec::new();
    for command in [Command::RunNow, Command::Replace, assignment(), Command::Lease(grant())] {
        decided.push(harness.decided(&key, command).await);
    }
    harness.cancel(&key).await;
    for transition in decided {
        expect_stale(&harness, transition).await;
    }
}

async fn a_decision_made_while_it_was_assigned_is_stale_after_it_finished(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.apply(&key, assignment()).await;
    let start = harness.decided(&key, Command::Start(grant())).await;
    let orphan = harness.decided(&key, Command::Orphan(OrphanCause::Silent)).await;
    harness.cancel(&key).await;
    expect_stale(&harness, start).await;
    expect_stale(&harness, orphan).await;
}

async fn a_task_that_has_ended_is_never_leased_or_overdue_or_renewed(harness: Harness) {
    for (outcome, _) in ends() {
        let leased = ended(&harness, outcome).await;
        let before = harness.record(&leased.lease.key).await;
        harness.advance(seconds(3600)).await;
        assert!(harness.lease(10).await.is_empty());
        assert!(harness.overdue().await.is_empty());
        assert_ne!(harness.renew(&leased.lease).await, Renewed::Extended);
        harness.confirm(&leased.lease).await;
        assert_eq!(harness.record(&leased.lease.key).await, before);
    }
}

async fn a_task_that_ended_while_it_waited_is_never_leased(harness: Harness) {
    let keys = [harness.enqueue(task()).await, harness.enqueue(task().delay(seconds(10))).await];
    for key in &keys {
        harness.cancel(key).await;
    }
    harness.advance(seconds(3600)).await;
    assert!(harness.lease(10).await.is_empty());
    for key in &keys {
        assert_eq!(harness.record(key).await.executions, 0);
    }
}

async fn ended(harness: &Harness, outcome: Outcome) -> Leased {
    harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, outcome).await;
    leased
}

fn grant() -> Grant {
    Grant { worker: worker("w"), token: LeaseToken(7), ttl: seconds(30) }
}

fn assignment() -> Command {
    Command::Assign { worker: worker("w"), epoch: Epoch(1) }
}

/// Every command except a reported outcome.
fn every_command() -> Vec<Command> {
    vec![
        Command::Lease(grant()),
        assignment(),
        Command::Start(grant()),
        Command::Orphan(OrphanCause::Silent),
        Command::AbandonOrphan,
        Command::Expire(OverdueReason::Lease),
        Command::Expire(OverdueReason::ExpiresAt),
        Command::Expire(OverdueReason::Hold),
        Command::Cancel,
        Command::Replace,
        Command::RunNow,
    ]
}

fn decided_while_running(leased: &Leased) -> Vec<Transition> {
    let record = &leased.record;
    let others = [Outcome::failed("no"), Outcome::TimedOut, Outcome::Released];
    let snoozed = Outcome::Snoozed { delay: seconds(1) };
    let outcomes = ends().map(|(outcome, _)| outcome).into_iter().chain(others).chain([snoozed]);
    let mut decided: Vec<_> = outcomes.map(|outcome| end_of(leased, outcome)).collect();
    for command in [Command::Cancel, Command::Replace, Command::Expire(OverdueReason::Lease)] {
        decided.push(decide(record, command, record.updated_at).expect("it runs"));
    }
    decided
}

/// The transition is refused, and the record is unchanged.
async fn expect_stale(harness: &Harness, transition: Transition) {
    let key: TaskKey = transition.key.clone();
    let before = harness.record(&key).await;
    assert_eq!(harness.commit_one(transition.clone()).await, Committed::Stale, "{transition:?}");
    assert_eq!(harness.record(&key).await, before);
}

cases![
    every_command_on_a_task_that_has_ended_is_refused,
    every_outcome_for_a_finished_task_is_refused,
    a_decision_made_while_it_ran_is_stale_after_it_finished,
    a_users_cancel_is_stale_after_the_handlers_own,
    a_decision_made_while_it_waited_is_stale_after_it_finished,
    a_decision_made_while_it_was_assigned_is_stale_after_it_finished,
    a_task_that_has_ended_is_never_leased_or_overdue_or_renewed,
    a_task_that_ended_while_it_waited_is_never_leased,
];
