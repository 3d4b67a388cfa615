//! Mutation tests of the checkers: each deliberate bug of a naive store is found by some world, and a store
//! without a bug passes.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::Arc;

use weaver_testkit::simulation::buggy::{Bug, ModelStore};
use weaver_testkit::simulation::{Outcome, simulate_on};

/// A bug that survives this many worlds counts as not found.
const WORLDS_MAX: u64 = 1000;

fn world(seed: u64, bug: Option<Bug>) -> Outcome {
    simulate_on(seed, &|clock| Arc::new(ModelStore::new(clock, bug)))
}

fn caught(bug: Bug) {
    for seed in 0..WORLDS_MAX {
        // A panic also shows the bug, but the checkers are under test.
        let Ok(outcome) = catch_unwind(|| world(seed, Some(bug))) else { continue };
        let Some(first) = outcome.violations.first() else { continue };
        // They must have found this bug.
        if !world(seed, None).violations.is_empty() {
            continue;
        }
        let guarantees: BTreeSet<_> = outcome.violations.iter().map(|found| found.guarantee).collect();
        println!("{bug:?} is caught by seed {seed}, by {guarantees:?}: {first}");
        return;
    }
    panic!("{bug:?} survives {WORLDS_MAX} worlds");
}

macro_rules! mutants {
    ($($name:ident: $bug:ident,)*) => {
        $(#[test]
        fn $name() {
            caught(Bug::$bug);
        })*

        #[test]
        fn every_bug_is_tried() {
            assert_eq!(Bug::ALL, [$(Bug::$bug),*]);
        }
    };
}

mutants! {
    a_store_without_a_fence_is_caught: NoFence,
    a_renewal_that_bumps_the_version_is_caught: RenewalBumpsVersion,
    a_lease_that_ends_though_it_was_renewed_is_caught: OverdueIgnoresRenewals,
    an_expiry_that_overtakes_a_renewal_is_caught: ExpiryIgnoresRenewals,
    a_loss_counted_as_a_failure_is_caught: LostCountedAsFailed,
    a_hold_freed_on_cancel_is_caught: HoldFreedOnCancel,
    a_terminal_task_that_moves_is_caught: TerminalCanMove,
    a_lease_before_its_time_is_caught: LeasedBeforeDue,
    a_task_granted_twice_is_caught: GrantedTwice,
    an_idempotency_key_ignored_is_caught: IdempotencyIgnored,
    a_lost_event_is_caught: EventsLost,
    a_serial_key_freed_during_a_retry_is_caught: KeyFreedDuringRetry,
    a_release_charged_as_a_failure_is_caught: ReleaseCharged,
    a_lease_across_namespaces_is_caught: NamespaceIgnored,
    a_limit_ignored_is_caught: LimitIgnored,
    a_lost_enqueue_is_caught: EnqueueLost,
    a_lease_that_never_ends_is_caught: NothingOverdue,
    a_reversed_order_is_caught: OrderReversed,
    a_cancellation_that_is_not_signalled_is_caught: CancelNotTold,
}

#[test]
fn without_a_bug_the_naive_store_keeps_every_guarantee() {
    for seed in 0..60 {
        let outcome = world(seed, None);
        assert!(outcome.violations.is_empty(), "on the naive store, {outcome}");
    }
}
