//! G4, terminal is final: nothing that has ended moves again, whoever asks and whenever it was decided.

use weaver_core::id::{Epoch, LeaseToken, TaskKey};
use weaver_core::lease::{Leased, Renewed};
use weaver_core::lifecycle::{Command, Grant, OverdueWhy, Refused, Transition, decide};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{CancelReason, Cause, TaskState};

use super::cases;
use super::steps::end_of;
use crate::bed::{Bed, seconds, task, worker};

/// The three ends of a running task that leave nothing behind.
fn ends() -> [(Outcome, TaskState); 3] {
    let cancelled = Outcome::Cancelled { message: "no".into() };
    [
        (Outcome::DONE, TaskState::Succeeded),
        (Outcome::fatal("no"), TaskState::Dead),
        (cancelled, TaskState::Cancelled),
    ]
}

async fn every_command_on_a_task_that_has_ended_is_refused(bed: Bed) {
    for (outcome, state) in ends() {
        let leased = ended(&bed, outcome).await;
        let record = bed.record(&leased.lease.key).await;
        assert_eq!(record.state, state);
        for command in every_command() {
            let answer = decide(&record, command, bed.now().await);
            assert_eq!(answer, Err(Refused::Ended { state }));
        }
    }
}

async fn every_end_of_a_task_that_has_ended_is_refused(bed: Bed) {
    for (outcome, _) in ends() {
        let leased = ended(&bed, outcome).await;
        let record = bed.record(&leased.lease.key).await;
        for (outcome, _) in ends() {
            let command = Command::Finish { lease: leased.lease.clone(), outcome };
            assert_eq!(decide(&record, command, bed.now().await), Err(Refused::LeaseLost));
        }
    }
}

async fn what_was_decided_while_it_ran_is_stale_after_its_end(bed: Bed) {
    for (outcome, state) in ends() {
        bed.enqueue(task()).await;
        let leased = bed.lease_one().await;
        let decided = decided_while_running(&leased);
        bed.end(&leased, outcome).await;
        for transition in decided.into_iter().filter(|transition| transition.to != state) {
            expect_stale(&bed, transition).await;
        }
    }
}

async fn a_users_cancel_is_stale_after_the_handlers_own(bed: Bed) {
    let key = bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    let by_user = bed.decided(&key, Command::Cancel).await;
    bed.end(&leased, Outcome::Cancelled { message: "no".into() }).await;
    expect_stale(&bed, by_user).await;
    assert_eq!(bed.record(&key).await.cause, Some(Cause::Cancelled(CancelReason::Handler)));
}

async fn what_was_decided_while_it_waited_is_stale_after_its_end(bed: Bed) {
    let key = bed.enqueue(task().delay(seconds(10))).await;
    bed.advance(seconds(20)).await;
    let mut decided = Vec::new();
    for command in [Command::RunNow, Command::Replace, assignment(), Command::Lease(grant())] {
        decided.push(bed.decided(&key, command).await);
    }
    bed.cancel(&key).await;
    for transition in decided {
        expect_stale(&bed, transition).await;
    }
}

async fn what_was_decided_while_it_was_assigned_is_stale_after_its_end(bed: Bed) {
    let key = bed.enqueue(task()).await;
    bed.apply(&key, assignment()).await;
    let start = bed.decided(&key, Command::Start(grant())).await;
    let orphan = bed.decided(&key, Command::Orphan).await;
    bed.cancel(&key).await;
    expect_stale(&bed, start).await;
    expect_stale(&bed, orphan).await;
}

async fn a_task_that_has_ended_is_never_leased_or_overdue_or_renewed(bed: Bed) {
    for (outcome, _) in ends() {
        let leased = ended(&bed, outcome).await;
        let before = bed.record(&leased.lease.key).await;
        bed.advance(seconds(3600)).await;
        assert!(bed.lease(10).await.is_empty());
        assert!(bed.overdue().await.is_empty());
        assert_ne!(bed.renew(&leased.lease).await, Renewed::Extended);
        bed.confirm(&leased.lease).await;
        assert_eq!(bed.record(&leased.lease.key).await, before);
    }
}

async fn a_task_that_ended_while_it_waited_is_never_leased(bed: Bed) {
    let keys = [bed.enqueue(task()).await, bed.enqueue(task().delay(seconds(10))).await];
    for key in &keys {
        bed.cancel(key).await;
    }
    bed.advance(seconds(3600)).await;
    assert!(bed.lease(10).await.is_empty());
    for key in &keys {
        assert_eq!(bed.record(key).await.executions, 0);
    }
}

async fn ended(bed: &Bed, outcome: Outcome) -> Leased {
    bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, outcome).await;
    leased
}

fn grant() -> Grant {
    Grant { worker: worker("w"), token: LeaseToken(7), ttl: seconds(30) }
}

fn assignment() -> Command {
    Command::Assign { worker: worker("w"), epoch: Epoch(1) }
}

/// Every command but the report of an end.
fn every_command() -> Vec<Command> {
    vec![
        Command::Lease(grant()),
        assignment(),
        Command::Start(grant()),
        Command::Orphan,
        Command::Bury,
        Command::Expire(OverdueWhy::Lease),
        Command::Expire(OverdueWhy::ExpiresAt),
        Command::Expire(OverdueWhy::Hold),
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
    for command in [Command::Cancel, Command::Replace, Command::Expire(OverdueWhy::Lease)] {
        decided.push(decide(record, command, record.updated_at).expect("it runs"));
    }
    decided
}

/// The transition is refused, and the record stays as it is.
async fn expect_stale(bed: &Bed, transition: Transition) {
    let key: TaskKey = transition.key.clone();
    let before = bed.record(&key).await;
    assert_eq!(bed.commit_one(transition.clone()).await, Committed::Stale, "{transition:?}");
    assert_eq!(bed.record(&key).await, before);
}

cases![
    every_command_on_a_task_that_has_ended_is_refused,
    every_end_of_a_task_that_has_ended_is_refused,
    what_was_decided_while_it_ran_is_stale_after_its_end,
    a_users_cancel_is_stale_after_the_handlers_own,
    what_was_decided_while_it_waited_is_stale_after_its_end,
    what_was_decided_while_it_was_assigned_is_stale_after_its_end,
    a_task_that_has_ended_is_never_leased_or_overdue_or_renewed,
    a_task_that_ended_while_it_waited_is_never_leased,
];
