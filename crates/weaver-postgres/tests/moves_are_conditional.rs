//! A move applies to the task, the version and the token it was decided on. Late, repeated and foreign ones
//! change nothing, in leases of many and in leases of one.

mod support;

use std::time::Duration;

use sqlx::Acquire;
use support::OnServer;
use weaver_core::id::{Epoch, Version};
use weaver_core::lease::{ContinuationChange, Renewal, Renewed};
use weaver_core::lifecycle::{Command, OverdueReason, Transition, decide};
use weaver_core::ports::{Scope, Tasks};
use weaver_core::prelude::*;
use weaver_core::queue::Committed;

const EVERYTHING: &str = "SELECT md5(concat((SELECT string_agg(l::text, \
     '|' ORDER BY l.lease_id) FROM weaver.leases l), \
     (SELECT string_agg(r::text, '|' ORDER BY r.id) FROM weaver.ready r), \
     (SELECT string_agg(e::text, '|' ORDER BY e.id) FROM weaver.ended e), \
     (SELECT string_agg(p::text, '|' ORDER BY p.id) FROM weaver.progress p), \
     (SELECT string_agg(c::text, '|' ORDER BY c.run_id, c.attempt) FROM weaver.closed_attempts c)))";

async fn everything(place: &OnServer) -> String {
    let query = sqlx::query_scalar(place.schema.sql(EVERYTHING));
    query.fetch_one(&place.direct).await.expect("the server answers")
}

/// A lease of many, or as many leases of one: their tasks have serial keys.
async fn leased(place: &OnServer, is_shared: bool, token: u128) -> Vec<Leased> {
    let task = |number: usize| match is_shared {
        true => NewTask::new("t"),
        false => NewTask::new("t").serial_key(format!("{token}/{number}")),
    };
    place.store.enqueue_batch((0..4).map(task).collect()).await.expect("the store answers");
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
    let leased = place.store.lease(LeaseRequest { max: 4, slots: 4, ..request }).await;
    let leased = leased.expect("the store answers");
    assert_eq!(leased.len(), 4);
    leased
}

/// Ends of every kind, and lease expiry.
fn ends(held: &Leased) -> Vec<Transition> {
    let outcomes = [
        Outcome::DONE,
        Outcome::failed("x"),
        Outcome::fatal("x"),
        Outcome::Released,
        Outcome::Snoozed { delay: Duration::from_secs(5) },
        Outcome::Cancelled { message: "x".into() },
    ];
    let finish = outcomes.map(|outcome| Command::Finish { lease: held.lease.clone(), outcome });
    let later = held.record.updated_at.saturating_add(Duration::from_secs(3600));
    let expire = Command::Expire(OverdueReason::Lease);
    let commands = finish.into_iter().chain([expire]);
    commands.map(|command| decide(&held.record, command, later).expect("it holds the lease")).collect()
}

/// The lease with one thing wrong.
fn wrong(lease: &Lease) -> [Lease; 5] {
    let with = |change: fn(&mut Lease)| {
        let mut wrong = lease.clone();
        change(&mut wrong);
        wrong
    };
    [
        with(|lease| lease.version = Version(lease.version.0 + 1)),
        with(|lease| lease.version = Version(lease.version.0 - 1)),
        with(|lease| lease.token = LeaseToken(99)),
        with(|lease| lease.epoch = Epoch(7)),
        with(|lease| lease.key = TaskKey::new(Namespace::new("other").expect("a name"), lease.key.id)),
    ]
}

#[tokio::test]
async fn an_end_with_another_version_token_epoch_or_namespace_changes_nothing() {
    let place = support::on_server().await;
    for (is_shared, token) in [(true, 1), (false, 2)] {
        let leased = leased(&place, is_shared, token).await;
        let before = everything(&place).await;
        let mut refused = 0;
        for end in ends(&leased[0]) {
            for lease in wrong(&leased[0].lease) {
                let wrong = Transition {
                    key: lease.key.clone(),
                    expected_version: lease.version,
                    expected_token: Some(lease.token),
                    expected_epoch: Some(lease.epoch),
                    ..end.clone()
                };
                let answers = place.store.commit(vec![wrong], None).await.expect("the store answers");
                assert_eq!(answers, [Committed::Stale], "{end:?} with {lease:?}");
                refused += 1;
            }
        }
        assert_eq!(refused, 35);
        assert_eq!(everything(&place).await, before, "shared: {is_shared}");
    }
    place.schema.drop(&place.direct).await;
}

#[tokio::test]
async fn a_renewal_or_completion_with_another_version_token_epoch_or_namespace_changes_nothing() {
    let place = support::on_server().await;
    for (is_shared, token) in [(true, 1), (false, 2)] {
        let leased = leased(&place, is_shared, token).await;
        let before = everything(&place).await;
        for lease in wrong(&leased[0].lease) {
            let confirming = ContinuationChange::Confirming { within: Duration::from_secs(50) };
            for continuation in [None, Some(confirming)] {
                let renewal = Renewal { continuation, ..Renewal::of(lease.clone()) };
                let answers = place.store.renew(vec![renewal]).await.expect("the store answers");
                assert_eq!(answers, [Renewed::Lost], "{lease:?}");
            }
            let mut connection = place.direct.acquire().await.expect("the server answers");
            let mut transaction = connection.begin().await.expect("the server answers");
            let completed = place.store.complete_in(&mut transaction, &lease, None).await;
            assert!(matches!(completed, Err(Error::Stale { .. })), "{completed:?} with {lease:?}");
            transaction.commit().await.expect("it commits");
            place.store.confirm_stopped(vec![lease]).await.expect("the store answers");
        }
        assert_eq!(everything(&place).await, before, "shared: {is_shared}");
    }
    place.schema.drop(&place.direct).await;
}

/// Both tokens belong to leases, but not to these tasks.
#[tokio::test]
async fn two_tasks_in_one_call_with_each_others_tokens_change_nothing() {
    let place = support::on_server().await;
    for is_shared in [true, false] {
        let token = if is_shared { 10 } else { 20 };
        let one = leased(&place, is_shared, token).await.remove(0);
        let two = leased(&place, is_shared, token + 1).await.remove(0);
        let before = everything(&place).await;
        for (mut first, mut second) in ends(&one).into_iter().zip(ends(&two)) {
            std::mem::swap(&mut first.expected_token, &mut second.expected_token);
            let answers = place.store.commit(vec![first.clone(), second], None).await;
            assert_eq!(answers.expect("it answers"), [const { Committed::Stale }; 2], "{first:?}");
        }
        let (mut first, mut second) = (one.lease.clone(), two.lease.clone());
        std::mem::swap(&mut first.token, &mut second.token);
        let confirming = ContinuationChange::Confirming { within: Duration::from_secs(50) };
        for continuation in [None, Some(confirming)] {
            let renewal = |lease: &Lease| Renewal { continuation, ..Renewal::of(lease.clone()) };
            let answers = place.store.renew(vec![renewal(&first), renewal(&second)]).await;
            assert_eq!(answers.expect("it answers"), [Renewed::Lost; 2]);
        }
        assert_eq!(everything(&place).await, before, "shared: {is_shared}");
    }
    place.schema.drop(&place.direct).await;
}

#[tokio::test]
async fn late_and_repeated_ends_change_nothing() {
    let place = support::on_server().await;
    for (is_shared, token) in [(true, 1), (false, 2)] {
        let leased = leased(&place, is_shared, token).await;
        let firsts = [0, 1, 2].map(|kind| ends(&leased[kind]).swap_remove(kind));
        let answers = place.store.commit(firsts.to_vec(), None).await.expect("the store answers");
        assert!(answers.iter().all(|answer| matches!(answer, Committed::Applied { .. })), "{answers:?}");
        let before = everything(&place).await;
        let again = place.store.commit(firsts.to_vec(), None).await.expect("the store answers");
        assert_eq!(again, [const { Committed::AlreadyApplied }; 3]);
        for (first, held) in firsts.iter().zip(&leased) {
            for late in ends(held).into_iter().filter(|late| late.to != first.to) {
                let answers = place.store.commit(vec![late.clone()], None).await.expect("the store answers");
                assert_eq!(answers, [Committed::Stale], "{late:?} after {first:?}");
            }
        }
        assert_eq!(everything(&place).await, before, "shared: {is_shared}");
    }
    place.schema.drop(&place.direct).await;
}

#[tokio::test]
async fn a_task_that_is_named_twice_in_one_call_ends_once_and_counts_once() {
    let place = support::on_server().await;
    for (is_shared, token) in [(true, 1), (false, 2)] {
        let leased = leased(&place, is_shared, token).await;
        for (kind, held) in [(0, &leased[0]), (1, &leased[1]), (2, &leased[2])] {
            let end = ends(held).swap_remove(kind);
            let other = ends(&leased[3]).swap_remove(0);
            let twice = if kind == 0 { vec![end.clone(), other, end] } else { vec![end.clone(), end] };
            let answers = place.store.commit(twice, None).await.expect("the store answers");
            assert!(matches!(answers[0], Committed::Applied { .. }), "{answers:?}");
            assert_eq!(answers.last(), Some(&Committed::AlreadyApplied));
        }
        let ids = format!("BETWEEN {} AND {}", leased[0].lease.key.id, leased[3].lease.key.id);
        let attempts =
            place.count(&format!("SELECT count(*) FROM weaver.job_run_attempts WHERE run_id {ids}")).await;
        assert_eq!(attempts, 4, "one each");
        let keys: Vec<_> = leased.iter().map(|each| each.lease.key.clone()).collect();
        let found = place.store.get_tasks(&keys).await.expect("the store answers");
        let versions: Vec<_> = found.into_iter().map(|found| found.expect("it is there").version.0).collect();
        assert_eq!(versions, [3; 4]);
    }
    let counts = place.store.counts(Scope::Namespace(Namespace::default())).await.expect("it answers");
    let counted = [TaskState::Succeeded, TaskState::RetryScheduled, TaskState::Dead, TaskState::Running]
        .map(|state| counts.values.get(state));
    assert_eq!(counted, [4, 2, 2, 0]);
    place.schema.drop(&place.direct).await;
}

#[tokio::test]
async fn a_reclaim_makes_waiting_tasks_of_the_next_version_of_what_has_not_ended() {
    let place = support::on_server().await;
    let leased = leased(&place, true, 1).await;
    let end = ends(&leased[0]).swap_remove(0);
    place.store.commit(vec![end], None).await.expect("the store answers");
    // One is renewed after its expiry was decided.
    let expired: Vec<_> = leased.iter().map(|held| ends(held).pop().expect("its expiry")).collect();
    let renewal = vec![Renewal::of(leased[1].lease.clone())];
    assert_eq!(place.store.renew(renewal).await.expect("the store answers"), [Renewed::Extended]);
    let answers = place.store.commit(expired, None).await.expect("the store answers");
    assert_eq!(answers[..2], [const { Committed::Stale }; 2]);
    assert!(answers[2..].iter().all(|answer| matches!(answer, Committed::Applied { .. })), "{answers:?}");
    let keys: Vec<_> = leased.iter().map(|each| each.lease.key.clone()).collect();
    let found = place.store.get_tasks(&keys).await.expect("the store answers");
    let found: Vec<_> = found.into_iter().flatten().map(|found| (found.state, found.version.0)).collect();
    use TaskState::{RetryScheduled, Running, Succeeded};
    assert_eq!(found, [(Succeeded, 3), (Running, 2), (RetryScheduled, 3), (RetryScheduled, 3)]);
    assert_eq!(place.misplaced().await, 0);
    place.schema.drop(&place.direct).await;
}

#[tokio::test]
async fn the_cancellation_hold_of_a_member_ends_only_for_its_own_lease() {
    let place = support::on_server().await;
    let leased = leased(&place, true, 1).await;
    place.store.cancel(&leased[0].lease.key).await.expect("it runs");
    let renewals: Vec<_> = leased.iter().map(|each| Renewal::of(each.lease.clone())).collect();
    let answers = place.store.renew(renewals).await.expect("the store answers");
    assert_eq!(answers[0], Renewed::Cancelled);
    assert_eq!(answers[1..], [Renewed::Extended; 3]);
    for lease in wrong(&leased[0].lease).into_iter().filter(|lease| lease.epoch == leased[0].lease.epoch) {
        place.store.confirm_stopped(vec![lease]).await.expect("the store answers");
        assert_eq!(place.lease_rows().await, 2, "the hold, and the lease of the others");
    }
    place.store.confirm_stopped(vec![leased[0].lease.clone()]).await.expect("the store answers");
    assert_eq!(place.lease_rows().await, 1);
    place.schema.drop(&place.direct).await;
}
