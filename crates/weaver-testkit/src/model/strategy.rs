//! Random steps. Times are multiples of five seconds, so that calls coincide with expiries; names are few, so
//! that tasks block each other.

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;

use crate::model::step::{End, LeasePlan, Move, NAMESPACES, QUEUES, RenewPlan, Step, TaskPlan, Under};

/// Walks of one to `steps_max` steps.
pub fn steps(steps_max: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..=steps_max)
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly at once: a deferred transition may be stale by the time it is committed.
    let commit = || prop_oneof![4 => Just(true), 1 => Just(false)];
    prop_oneof![
        8 => vec(task(), 1..5).prop_map(Step::Enqueue),
        8 => lease().prop_map(Step::Lease),
        1 => recent().prop_map(Step::LeaseAgain),
        6 => (vec((recent(), end()), 1..4), commit())
            .prop_map(|(ends, commit)| Step::Finish { ends, commit }),
        6 => (vec((recent(), r#move()), 1..4), commit())
            .prop_map(|(moves, commit)| Step::Command { moves, commit }),
        3 => (vec(recent(), 1..4), under()).prop_map(|(which, under)| Step::Commit(which, under)),
        3 => vec((recent(), renewal()), 1..4).prop_map(Step::Renew),
        2 => vec(recent(), 1..4).prop_map(Step::ConfirmStopped),
        2 => queue_settings(),
        3 => commit().prop_map(|commit| Step::Maintain { commit }),
        1 => (0..NAMESPACES, times(0..9))
            .prop_map(|(namespace, finished_for_s)| Step::Purge { namespace, finished_for_s }),
        1 => Just(Step::Elect),
        6 => times(0..9).prop_map(|by_s| Step::Advance { by_s }),
    ]
}

fn task() -> impl Strategy<Value = TaskPlan> {
    let place = (0..NAMESPACES, 0..QUEUES, 0..2_u8, prop_oneof![Just(5_u8), Just(0), Just(9)]);
    let keys = (weighted(0.5, 0..2_u8), weighted(0.2, 0..3_u8), weighted(0.1, 0..2_u8));
    let times = (weighted(0.4, times(0..7)), weighted(0.2, times(0..7)), of(times(0..3)));
    let budgets = (prop_oneof![Just(3_u32), Just(1), Just(0)], prop_oneof![Just(5_u32), Just(2), Just(1)]);
    let assigns = weighted(0.2, any::<bool>());
    (place, keys, times, budgets, assigns).prop_map(|(place, keys, times, budgets, assigns)| TaskPlan {
        assigns,
        namespace: place.0,
        queue: place.1,
        task_type: place.2,
        priority: place.3,
        serial: keys.0,
        unique: keys.1,
        scheduled_for_s: keys.2,
        delay_s: times.0,
        expires_s: times.1,
        retry_s: times.2,
        max_losses: budgets.0,
        max_attempts: budgets.1,
    })
}

fn lease() -> impl Strategy<Value = LeasePlan> {
    let which = (0..NAMESPACES, vec(0..QUEUES, 0..3), weighted(0.3, 0..2_u8));
    let fallback = prop_oneof![3 => Just(false), 1 => Just(true)];
    (which, 1..6_u32, 0..4_u32, times(1..7), fallback).prop_map(|(which, max, slots, ttl_s, fallback)| {
        LeasePlan {
            assign_fallback: fallback,
            namespace: which.0,
            queues: which.1,
            task_type: which.2,
            max,
            slots,
            ttl_s,
        }
    })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        3 => Just(End::Succeed),
        2 => Just(End::Fail),
        1 => times(0..5).prop_map(End::FailAfter),
        1 => Just(End::FailForGood),
        1 => Just(End::TimeOut),
        1 => times(0..5).prop_map(End::Snooze),
        1 => Just(End::Cancel),
        1 => Just(End::Release),
    ]
}

fn r#move() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => Just(Move::Cancel),
        1 => Just(Move::Replace),
        2 => Just(Move::RunNow),
        4 => (0..2_u8).prop_map(Move::Assign),
        4 => (0..2_u8).prop_map(Move::Start),
        3 => (0..6_u8).prop_map(Move::Orphan),
        2 => Just(Move::ReleaseOrphan),
        2 => Just(Move::AbandonOrphan),
        2 => Just(Move::Lease),
    ]
}

fn renewal() -> impl Strategy<Value = RenewPlan> {
    prop_oneof![
        3 => Just(RenewPlan::Plain),
        1 => (0..=100_u8).prop_map(RenewPlan::Progress),
        1 => times(0..9).prop_map(RenewPlan::Confirming),
        1 => Just(RenewPlan::Continue),
    ]
}

fn under() -> impl Strategy<Value = Under> {
    prop_oneof![4 => Just(Under::NoLeader), 1 => Just(Under::Leader), 1 => Just(Under::DeposedLeader)]
}

fn queue_settings() -> impl Strategy<Value = Step> {
    let paused = prop_oneof![3 => Just(false), 1 => Just(true)];
    let assigns = prop_oneof![2 => Just(false), 1 => Just(true)];
    (0..NAMESPACES, 0..QUEUES, paused, of(1..4_u32), assigns).prop_map(
        |(namespace, queue, paused, max_running, assigns)| Step::SetQueue {
            namespace,
            queue,
            paused,
            max_running,
            assigns,
        },
    )
}

/// One of the newest few, or any.
fn recent() -> impl Strategy<Value = u8> {
    prop_oneof![4 => 0..5_u8, 1 => any::<u8>()]
}

/// Seconds, five at a time.
fn times(fives: std::ops::Range<u8>) -> impl Strategy<Value = u8> {
    fives.prop_map(|count| count * 5)
}
