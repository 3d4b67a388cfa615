//! Properties of fencing: which lease may write, and which write is a repetition (G2).

use proptest::prelude::*;
use weaver_core::id::Version;
use weaver_core::lease::{Renewal, Renewed};
use weaver_core::lifecycle::{Command, OverdueReason, Refused, Transition, decide, renew};
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use crate::explore;
use crate::plan::{Event, Forgery, Seen, long_plans, plans};
use crate::properties::config;

/// In how many records after a transition a repetition of it is looked for.
const LATER_MAX: usize = 8;

/// Every transition that could be decided on a record.
fn choices(record: &TaskRecord, now: Timestamp) -> Vec<Transition> {
    explore::commands(record).into_iter().filter_map(|command| decide(record, command, now).ok()).collect()
}

/// Whether two transitions have the same effect on the state. Errors, delays and results are not compared.
fn is_same_move(one: &Transition, other: &Transition) -> bool {
    (one.to, one.cause) == (other.to, other.cause)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_end_under_anything_but_the_valid_lease_is_refused(plan in plans()) {
        for Seen { now, after: record, .. } in plan.live() {
            let Some(lease) = record.current_lease().or_else(|| record.hold()) else { continue };
            for forgery in Forgery::ALL {
                let forged = forgery.of(lease.clone());
                for outcome in explore::outcomes() {
                    let command = Command::Finish { lease: forged.clone(), outcome };
                    prop_assert_eq!(decide(&record, command, now), Err(Refused::LeaseLost), "{:?}", forgery);
                }
            }
        }
    }

    #[test]
    fn the_fence_of_a_lease_is_larger_than_those_of_all_before_it(plan in plans()) {
        let mut newest = Version(0);
        for Seen { before, after, .. } in plan.live() {
            let Some(lease) = after.current_lease() else { continue };
            let is_same = before.current_lease().is_some_and(|earlier| earlier == lease);
            prop_assert!(is_same || lease.version > newest, "{:?} after {:?}", lease.version, newest);
            prop_assert_eq!(lease.attempt, after.attempt);
            newest = lease.version;
        }
    }

    #[test]
    fn a_transition_fits_only_the_record_it_was_decided_on(plan in plans()) {
        let mut stale: Vec<Transition> = Vec::new();
        for Seen { now, before, event, after } in plan.live() {
            if let Event::Moved(_, transition) = &event {
                prop_assert!(transition.fits(&before));
                stale.extend(choices(&before, now));
            }
            if let Event::Renewed(_, Renewed::Extended) = &event {
                let expiry = decide(&before, Command::Expire(OverdueReason::Lease), now).unwrap();
                prop_assert!(expiry.fits(&before) && !expiry.fits(&after), "a renewal saves the lease");
            }
            let fits = stale.iter().find(|transition| transition.fits(&after));
            prop_assert!(fits.is_none(), "{:?} fits {:?}", fits, after);
        }
    }

    #[test]
    fn the_repetition_of_a_transition_is_recognised_right_after_it(plan in plans()) {
        for Seen { before, event, after, .. } in plan.live() {
            if let Event::Moved(_, transition) = &event {
                prop_assert!(!transition.is_already_applied(&before), "{:?}", event);
                prop_assert!(transition.is_already_applied(&after), "{:?}", event);
            }
        }
    }

    #[test]
    fn the_repetition_of_an_end_is_recognised_as_long_as_its_attempt_is_remembered(
        plan in prop_oneof![plans(), long_plans()],
    ) {
        let mut ends: Vec<Transition> = Vec::new();
        for Seen { event, after, .. } in plan.live() {
            if let Event::Moved(_, transition) = &event {
                ends.extend(transition.attempt_ended.map(|_| transition.clone()));
            }
            for end in &ends {
                let is_remembered = after.attempts.iter().any(|kept| kept.fence == end.expected_version);
                let is_newest = after.version == end.expected_version.next();
                prop_assert_eq!(end.is_already_applied(&after), is_remembered || is_newest, "{:?}", end);
            }
        }
    }

    #[test]
    fn a_transition_that_was_not_applied_is_never_taken_for_a_repetition(plan in plans()) {
        let seen = plan.live();
        for (index, Seen { now, before, event, .. }) in seen.iter().enumerate() {
            let Event::Moved(_, made) = event else { continue };
            for other in choices(before, *now).iter().filter(|other| !is_same_move(other, made)) {
                for Seen { after, .. } in &seen[index..seen.len().min(index + LATER_MAX)] {
                    prop_assert!(!other.is_already_applied(after), "{:?}\nwas not made: {:?}", other, made);
                }
            }
        }
    }

    #[test]
    fn a_lease_that_is_no_longer_valid_is_neither_renewed_nor_able_to_end_anything(plan in plans()) {
        let mut leases = Vec::new();
        for Seen { now, after, .. } in plan.live() {
            leases.extend(after.current_lease());
            for lease in leases.iter().filter(|lease| after.current_lease().as_ref() != Some(*lease)) {
                let mut record = after.clone();
                prop_assert_ne!(renew(&mut record, Renewal::of(lease.clone()), now), Renewed::Extended);
                prop_assert_eq!(&record, &after);
                let end = Command::Finish { lease: lease.clone(), outcome: weaver_core::outcome::Outcome::DONE };
                prop_assert_eq!(decide(&after, end, now), Err(Refused::LeaseLost));
            }
            leases.dedup();
        }
    }
}
