//! Properties of the transitions, for any sequence of commands.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use weaver_core::lease::{Renewal, Renewed};
use weaver_core::lifecycle::table::{self, ENTRY, Presence, RULES};
use weaver_core::lifecycle::{Command, OverdueReason, Refused, decide, renew};
use weaver_core::task::{ATTEMPTS_KEPT, Continuation, TaskRecord, TaskState};
use weaver_core::time::Timestamp;

use crate::explore;
use crate::plan::{Event, Seen, long_plans, plans};
use crate::square::verb_of;

/// No files of failed cases: a case worth keeping becomes a plain test with a name.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// The record without what a renewal or the end of a hold may touch.
fn unmoved(record: &TaskRecord) -> TaskRecord {
    TaskRecord {
        lease: None,
        renewals: 0,
        continuation: Continuation::None,
        progress: None,
        ..record.clone()
    }
}

/// Whether section 3 of the design lets a command move a record: the state, and the conditions beside it.
fn design_allows(record: &TaskRecord, command: &Command, now: Timestamp) -> bool {
    use TaskState::{Assigned, Orphaned, RetryScheduled, Running, Scheduled};
    let is_spent = record.losses > record.spec.max_losses;
    let has_expired = record.executions == 0 && record.spec.expires_at.is_some_and(|instant| instant <= now);
    let may_begin = record.ready_at <= now && !has_expired;
    let is_live = !record.state.is_terminal();
    match command {
        Command::Lease(_) => record.state.is_waiting() && may_begin,
        Command::Assign { .. } if record.state == Orphaned => may_begin && !is_spent,
        Command::Assign { .. } => record.state.is_waiting() && may_begin,
        Command::Start(grant) => {
            let given = record.assignment.as_ref().map(|given| &given.worker);
            record.state == Assigned && given == Some(&grant.worker) && may_begin
        }
        Command::Orphan(_) => record.state == Assigned,
        Command::ReleaseOrphan => record.state == Orphaned && !is_spent,
        Command::AbandonOrphan => record.state == Orphaned && is_spent,
        Command::Finish { lease, .. } => {
            record.state == Running && record.current_lease().as_ref() == Some(lease)
        }
        Command::Expire(OverdueReason::Lease) => record.state == Running,
        Command::HolderEnded { process } => {
            record.current_lease().is_some_and(|lease| lease.token.process() == *process)
        }
        Command::Expire(OverdueReason::ExpiresAt) => is_live && has_expired,
        Command::Expire(OverdueReason::Hold) => false,
        Command::Cancel | Command::Replace => is_live,
        Command::RunNow => matches!(record.state, Scheduled | RetryScheduled),
    }
}

#[test]
fn the_random_lives_go_through_every_rule_and_past_the_history() {
    let mut runner = TestRunner::deterministic();
    let mut missing = RULES.to_vec();
    for _ in 0..1000 {
        for Seen { before, event, after, .. } in plans().new_tree(&mut runner).unwrap().current().live() {
            if let Event::Moved(_, transition) = event {
                missing.retain(|rule| {
                    (rule.from, rule.verb, rule.to, rule.cause)
                        != (before.state, transition.verb, after.state, after.cause)
                });
            }
        }
    }
    assert_eq!(missing, []);
    let mut longest = 0;
    for _ in 0..10 {
        let plan = long_plans().new_tree(&mut runner).unwrap().current();
        longest =
            plan.live().iter().map(|seen| seen.after.attempt as usize).max().max(Some(longest)).unwrap();
    }
    assert!(longest > ATTEMPTS_KEPT, "no task had more than {longest} attempts");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_task_moves_only_by_rules_of_the_table(plan in plans()) {
        let mut last: Option<TaskState> = None;
        for Seen { before, event, after, .. } in plan.live() {
            prop_assert!(last.map_or(ENTRY.contains(&before.state), |state| state == before.state));
            last = Some(after.state);
            if let Event::Moved(command, transition) = &event {
                prop_assert_eq!(Some(transition.verb), verb_of(&before, command));
                let is_rule = table::allows(before.state, transition.verb, after.state, after.cause);
                prop_assert!(is_rule, "{:?}: {} -> {} {:?}", event, before.state, after.state, after.cause);
            } else {
                prop_assert_eq!(unmoved(&before), unmoved(&after), "{:?} moves nothing", event);
            }
        }
    }

    #[test]
    fn a_command_is_accepted_exactly_when_the_design_allows_it(plan in plans()) {
        for Seen { now, before, event, .. } in plan.live() {
            let (command, accepted) = match &event {
                Event::Moved(command, _) => (command, true),
                Event::Refused(command, why) => {
                    let is_end = matches!(command, Command::Finish { .. });
                    prop_assert_eq!(*why == Refused::LeaseLost, is_end, "{:?}", event);
                    let is_over = before.state.is_terminal() && !is_end;
                    prop_assert_eq!(matches!(why, Refused::Ended { .. }), is_over, "{:?}", event);
                    (command, false)
                }
                Event::Renewed(..) | Event::Stopped => continue,
            };
            prop_assert_eq!(accepted, design_allows(&before, command, now), "{} {:?}", before.state, event);
        }
    }

    #[test]
    fn a_task_that_has_ended_never_changes_state_again(plan in plans()) {
        let mut end: Option<TaskRecord> = None;
        for Seen { now, after, event, .. } in plan.live() {
            if let Some(end) = &end {
                prop_assert_eq!(unmoved(end), unmoved(&after), "{:?}", event);
            }
            if !after.state.is_terminal() {
                continue;
            }
            for command in explore::commands(&after) {
                for now in [now, Timestamp::MAX] {
                    prop_assert!(decide(&after, command.clone(), now).is_err(), "{} {:?}", after.state, command);
                }
            }
            prop_assert_eq!(after.current_lease(), None);
            prop_assert!(after.finished_at.is_some());
            end.get_or_insert(after);
        }
    }

    #[test]
    fn the_version_grows_by_one_with_every_move_and_only_then(plan in plans()) {
        for Seen { before, event, after, .. } in plan.live() {
            let moves = u64::from(matches!(event, Event::Moved(..)));
            prop_assert_eq!(after.version.0, before.version.0 + moves, "{:?}", event);
            let extended = u64::from(matches!(event, Event::Renewed(_, Renewed::Extended)));
            prop_assert_eq!(after.renewals, before.renewals + extended, "{:?}", event);
        }
    }

    #[test]
    fn a_record_carries_what_the_shape_of_its_state_says(plan in plans()) {
        for Seen { event, after, .. } in plan.live() {
            let shape = after.state.shape();
            for (presence, is_there) in [
                (shape.lease, after.lease.is_some()),
                (shape.assignment, after.assignment.is_some()),
                (shape.finished_at, after.finished_at.is_some()),
            ] {
                let fits = match presence {
                    Presence::Never => !is_there,
                    Presence::Maybe => true,
                    Presence::Always => is_there,
                };
                prop_assert!(fits, "{} after {:?}: {:?}", after.state, event, shape);
            }
        }
    }

    #[test]
    fn no_attempt_starts_before_the_task_is_due(plan in plans()) {
        for Seen { now, before, event, after } in plan.live() {
            let begins = before.state.is_waiting() && matches!(after.state, TaskState::Assigned | TaskState::Running);
            if begins {
                prop_assert!(before.ready_at <= now, "{:?} at {}, due at {}", event, now, before.ready_at);
            }
        }
    }

    #[test]
    fn the_history_is_the_last_twenty_attempts_in_order(plan in prop_oneof![plans(), long_plans()]) {
        let mut ended = Vec::new();
        for Seen { now, before, event, after } in plan.live() {
            if let Event::Moved(_, transition) = &event
                && let Some(outcome) = transition.attempt_ended
            {
                ended.push((before.attempt, before.version, outcome, now));
            }
            let kept = &ended[ended.len().saturating_sub(ATTEMPTS_KEPT)..];
            let history: Vec<_> =
                after.attempts.iter().map(|kept| (kept.attempt, kept.fence, kept.outcome, kept.ended_at)).collect();
            prop_assert_eq!(&history, kept);
            // Every attempt has ended, except the current one.
            let under_way = u32::from(matches!(after.state, TaskState::Assigned | TaskState::Running));
            let closed = after.attempts.last().map_or(0, |last| last.attempt);
            prop_assert_eq!(closed + under_way, after.attempt, "{:?}", event);
        }
    }

    #[test]
    fn after_its_end_a_task_holds_key_and_slot_only_while_its_handler_has_not_stopped(plan in plans()) {
        for Seen { before, event, after, .. } in plan.live() {
            if !after.state.is_terminal() {
                let is_begun = after.executions > 0 || after.occupies_slot();
                prop_assert_eq!(after.holds_key(), is_begun && after.spec.serial_key.is_some());
                continue;
            }
            let is_held = after.hold().is_some();
            prop_assert_eq!(after.occupies_slot(), is_held, "{:?}", event);
            prop_assert_eq!(after.holds_key(), is_held && after.spec.serial_key.is_some(), "{:?}", event);
            if let Event::Moved(command, _) = &event {
                let cuts_off = matches!(command, Command::Cancel | Command::Replace);
                prop_assert_eq!(is_held, cuts_off && before.state == TaskState::Running, "{:?}", event);
            }
        }
    }

    #[test]
    fn a_lease_is_renewed_exactly_while_it_is_the_valid_one(plan in plans()) {
        for Seen { now, before, event, after } in plan.live() {
            if let Event::Renewed(Renewal { lease, .. }, answer) = &event {
                let is_valid = before.current_lease().as_ref() == Some(lease);
                prop_assert_eq!(*answer == Renewed::Extended, is_valid, "{:?}", event);
                if !is_valid {
                    prop_assert_eq!(&before, &after, "a renewal that was refused changes nothing");
                }
            }
            if let Some(lease) = after.current_lease() {
                let mut renewed = after.clone();
                prop_assert_eq!(renew(&mut renewed, Renewal::of(lease), now), Renewed::Extended);
                prop_assert_eq!(unmoved(&renewed), unmoved(&after));
            }
        }
    }
}
