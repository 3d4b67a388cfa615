//! Fencing: versions, renewals, tokens, epochs and holds keep a worker with a lost lease from writing.

use weaver_core::id::{Epoch, LeaseToken, Version};
use weaver_core::lease::{ContinuationChange, LEASE_TTL_MAX, Lease, Renewal, Renewed};
use weaver_core::lifecycle::{
    Command, Grant, OverdueReason, Refused, confirm_stopped, decide, renew, was_committed,
};
use weaver_core::outcome::Outcome;
use weaver_core::task::{Continuation, Progress, TaskState};

use crate::life::{Life, SECOND, TTL, task};

fn end(life: &mut Life, lease: Lease, outcome: Outcome) -> Result<(), Refused> {
    life.ask(Command::Finish { lease, outcome }).map(drop)
}

#[test]
fn an_end_under_another_version_token_or_epoch_is_refused() {
    let mut life = Life::running(task());
    let valid = life.record.current_lease().unwrap();
    let wrong = [
        Lease { version: Version(valid.version.0 - 1), ..valid.clone() },
        Lease { version: valid.version.next(), ..valid.clone() },
        Lease { token: LeaseToken(valid.token.0 + 1), ..valid.clone() },
        Lease { epoch: Epoch(1), ..valid.clone() },
    ];
    for lease in wrong {
        assert_eq!(end(&mut life, lease, Outcome::DONE), Err(Refused::LeaseLost));
    }
    assert_eq!(end(&mut life, valid, Outcome::DONE), Ok(()));
}

#[test]
fn a_lease_that_was_lost_cannot_end_the_attempt_of_its_successor() {
    let mut life = Life::running(task());
    let lost = life.record.current_lease().unwrap();
    let _ = life.expire_lease();
    assert_eq!(end(&mut life, lost.clone(), Outcome::DONE), Err(Refused::LeaseLost));
    let _ = life.lease();
    assert_eq!(end(&mut life, lost, Outcome::DONE), Err(Refused::LeaseLost));
}

#[test]
fn an_assigned_attempt_ends_under_the_epoch_it_started_under() {
    let mut life = Life::of(task());
    let _ = life.assign("ada", 7).unwrap();
    let lease = life.start("ada").unwrap();
    let of_the_next_leader = Lease { epoch: Epoch(8), ..lease.clone() };
    assert_eq!(end(&mut life, of_the_next_leader, Outcome::DONE), Err(Refused::LeaseLost));
    assert_eq!(end(&mut life, lease, Outcome::DONE), Ok(()));
}

#[test]
fn a_renewal_of_a_cancelled_task_is_cancelled_and_its_report_is_refused() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    let _ = life.ask(Command::Cancel).unwrap();
    assert_eq!(end(&mut life, lease.clone(), Outcome::DONE), Err(Refused::LeaseLost));
    assert_eq!(renew(&mut life.record, Renewal::of(lease.clone()), life.now), Renewed::Cancelled);
    assert!(confirm_stopped(&mut life.record, &lease));
    assert!(!confirm_stopped(&mut life.record, &lease), "there is nothing left to confirm");
    assert_eq!(renew(&mut life.record, Renewal::of(lease), life.now), Renewed::Cancelled);
}

#[test]
fn confirming_that_a_handler_stopped_touches_neither_state_nor_version() {
    let mut life = Life::running(task().serial_key("order-42"));
    let lease = life.record.current_lease().unwrap();
    let _ = life.ask(Command::Cancel).unwrap();
    let before = life.record.clone();
    assert!(!confirm_stopped(&mut life.record, &Lease { token: LeaseToken(0), ..lease.clone() }));
    assert!(confirm_stopped(&mut life.record, &lease));
    assert_eq!((life.record.state, life.record.version), (before.state, before.version));
    assert!(!life.record.occupies_slot() && !life.record.holds_key());
}

#[test]
fn a_running_task_cannot_be_confirmed_as_stopped() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    assert!(!confirm_stopped(&mut life.record, &lease));
    assert_eq!(life.record.current_lease(), Some(lease));
}

#[test]
fn a_renewal_extends_the_lease_and_counts_in_renewals_only() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    life.now = life.now.saturating_add(10 * SECOND);
    let progress = Progress { fraction: 0.5, message: "half".into() };
    let renewal = Renewal { progress: Some(progress.clone()), ..Renewal::of(lease.clone()) };
    assert_eq!(renew(&mut life.record, renewal, life.now), Renewed::Extended);
    assert_eq!((life.record.version, life.record.renewals), (lease.version, 1));
    assert_eq!(life.record.lease.as_ref().unwrap().expires_at, life.now.saturating_add(TTL));
    assert_eq!(life.record.progress.as_deref(), Some(&progress));
    assert_eq!(end(&mut life, lease, Outcome::DONE), Ok(()), "the lease is still the same");
}

#[test]
fn a_renewal_saves_a_lease_that_was_found_overdue() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    let expiry = decide(&life.record, Command::Expire(OverdueReason::Lease), life.now).unwrap();
    assert!(expiry.fits(&life.record));
    assert_eq!(renew(&mut life.record, Renewal::of(lease), life.now), Renewed::Extended);
    assert!(!expiry.fits(&life.record));
}

#[test]
fn a_lost_lease_is_not_renewed() {
    let mut life = Life::running(task());
    let lost = life.record.current_lease().unwrap();
    let _ = life.expire_lease();
    let _ = life.lease();
    let before = life.record.clone();
    assert_eq!(renew(&mut life.record, Renewal::of(lost), life.now), Renewed::Lost);
    assert_eq!(life.record, before);
}

#[test]
fn a_worker_that_is_confirming_keeps_its_lease() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    let with = |change| Renewal { continuation: Some(change), ..Renewal::of(lease.clone()) };
    let doubt = with(ContinuationChange::Confirming { within: 300 * SECOND });
    assert_eq!(renew(&mut life.record, doubt, life.now), Renewed::Extended);
    let check_deadline_at = life.now.saturating_add(300 * SECOND);
    assert_eq!(life.record.continuation, Continuation::Confirming { check_deadline_at });
    assert_eq!((life.record.state, life.record.version), (TaskState::Running, lease.version));
    assert_eq!(life.record.lease.as_ref().unwrap().expires_at, check_deadline_at);
    assert_eq!(renew(&mut life.record, with(ContinuationChange::Continue), life.now), Renewed::Extended);
    assert_eq!(life.record.continuation, Continuation::None);
    assert_eq!(life.record.lease.as_ref().unwrap().expires_at, life.now.saturating_add(TTL));
}

#[test]
fn no_lease_lasts_longer_than_the_maximum_whatever_ttl_is_requested() {
    let mut life = Life::of(task());
    let grant = Grant { ttl: 2 * LEASE_TTL_MAX, ..life.grant("ada") };
    let _ = life.ask(Command::Lease(grant)).unwrap();
    let latest = life.now.saturating_add(LEASE_TTL_MAX);
    assert_eq!(life.record.lease.as_ref().unwrap().expires_at, latest);
    let change = Some(ContinuationChange::Confirming { within: 2 * LEASE_TTL_MAX });
    let doubt = Renewal { continuation: change, ..Renewal::of(life.record.current_lease().unwrap()) };
    assert_eq!(renew(&mut life.record, doubt, life.now), Renewed::Extended);
    assert_eq!(life.record.lease.as_ref().unwrap().expires_at, latest);
}

#[test]
fn confirming_ends_with_the_attempt() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    let change = Some(ContinuationChange::Confirming { within: 300 * SECOND });
    let doubt = Renewal { continuation: change, ..Renewal::of(lease) };
    assert_eq!(renew(&mut life.record, doubt, life.now), Renewed::Extended);
    let _ = life.finish(Outcome::TimedOut);
    assert_eq!(life.record.continuation, Continuation::None);
}

#[test]
fn the_same_end_reported_twice_is_recognised_and_another_end_is_not() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    let decided = |life: &Life, outcome| {
        let command = Command::Finish { lease: lease.clone(), outcome };
        decide(&life.record, command, life.now).unwrap()
    };
    let failed = decided(&life, Outcome::failed("no route to host"));
    let others = [Outcome::DONE, Outcome::TimedOut, Outcome::Released, Outcome::fatal("no such address")]
        .map(|outcome| decided(&life, outcome));
    assert!(!failed.is_already_applied(&life.record), "nothing is applied yet");

    failed.clone().apply(&mut life.record, life.now);
    assert!(failed.is_already_applied(&life.record));
    assert!(others.iter().all(|other| !other.is_already_applied(&life.record)));

    let _ = life.lease();
    assert!(failed.is_already_applied(&life.record), "also after it was leased again");
    assert!(others.iter().all(|other| !other.is_already_applied(&life.record)));
}

#[test]
fn a_repeated_lease_is_recognised_by_its_token() {
    let mut life = Life::of(task());
    let granted = decide(&life.record, Command::Lease(life.grant("ada")), life.now).unwrap();
    let mut rival = life.grant("bob");
    rival.token = LeaseToken(99);
    let rival = decide(&life.record, Command::Lease(rival), life.now).unwrap();
    granted.clone().apply(&mut life.record, life.now);
    assert!(granted.is_already_applied(&life.record));
    assert!(!rival.is_already_applied(&life.record) && !rival.fits(&life.record));
}

#[test]
fn committed_is_believed_only_if_the_record_shows_it() {
    let mut life = Life::running(task());
    let lease = life.record.current_lease().unwrap();
    assert!(!was_committed(&life.record, &lease), "it still runs");
    let mut rolled_back = Life::running(task());
    let held = rolled_back.record.current_lease().unwrap();
    assert_eq!(end(&mut rolled_back, held.clone(), Outcome::Committed), Ok(()));
    assert_eq!((rolled_back.record.state, rolled_back.record.failures), (TaskState::RetryScheduled, 1));
    assert!(!was_committed(&rolled_back.record, &held));
    assert_eq!(end(&mut life, lease.clone(), Outcome::DONE), Ok(()));
    assert!(was_committed(&life.record, &lease));
    let another = Lease { version: lease.version.next(), ..lease };
    assert!(!was_committed(&life.record, &another), "another attempt's end");
}
