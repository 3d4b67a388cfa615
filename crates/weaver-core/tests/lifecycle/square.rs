//! Every state × every command, against the table.

use std::collections::BTreeSet;

use weaver_core::lifecycle::table::{RULES, Rule};
use weaver_core::lifecycle::{Command, OrphanCause, OverdueReason, Refused, Verb};
use weaver_core::outcome::Outcome;
use weaver_core::task::{TaskRecord, TaskState};

use crate::explore::{commands, explore};
use crate::life::{Life, task};

/// The verb of a command on a record; `None` if it is no transition.
pub(crate) fn verb_of(record: &TaskRecord, command: &Command) -> Option<Verb> {
    Some(match command {
        Command::Lease(_) => Verb::Lease,
        Command::Assign { .. } => Verb::Assign,
        Command::Start(_) => Verb::Start,
        Command::Orphan(OrphanCause::Silent) if !record.spec.runs_once() => Verb::Orphan,
        Command::Orphan(_) => Verb::Recall,
        Command::ReleaseOrphan => Verb::ReleaseOrphan,
        Command::AbandonOrphan => Verb::AbandonOrphan,
        Command::Finish { outcome, .. } => match outcome {
            Outcome::Succeeded { .. } => Verb::Succeed,
            // Reported as committed and still running: a failure.
            Outcome::Failed { .. } | Outcome::Committed => Verb::Fail,
            Outcome::TimedOut => Verb::TimeOut,
            Outcome::Snoozed { .. } => Verb::Snooze,
            Outcome::Cancelled { .. } => Verb::Cancel,
            Outcome::Released => Verb::Release,
        },
        Command::Expire(OverdueReason::Lease) | Command::HolderEnded { .. } => Verb::ExpireLease,
        Command::Expire(OverdueReason::ExpiresAt) => Verb::Expire,
        Command::Expire(OverdueReason::Hold) => return None,
        Command::Cancel | Command::Replace => Verb::Cancel,
        Command::RunNow => Verb::RunNow,
    })
}

#[test]
fn every_command_is_tried_in_every_state() {
    let mut tried = BTreeSet::new();
    explore(|before, command, _| {
        tried.insert((before.state, verb_of(before, command)));
    });
    let record = Life::of(task()).record;
    let verbs: BTreeSet<_> = commands(&record).iter().map(|command| verb_of(&record, command)).collect();
    assert_eq!(verbs.len(), 17, "the 16 verbs, and the expiry of a hold, which is none");
    assert_eq!(tried.len(), TaskState::ALL.len() * verbs.len());
}

#[test]
fn every_pair_of_state_and_verb_that_is_not_in_the_table_is_refused() {
    explore(|before, command, decided| {
        let verb = verb_of(before, command);
        // A handler's cancel is an end like the others: it needs a lease, so the task must be running.
        let is_end = matches!(command, Command::Finish { .. });
        let in_table = |rule: &Rule| {
            rule.from == before.state
                && Some(rule.verb) == verb
                && (!is_end || rule.from == TaskState::Running)
        };
        if !RULES.iter().any(in_table) {
            assert!(decided.is_err(), "{} {command:?} is not in the table", before.state);
        }
    });
}

#[test]
fn every_decision_is_a_rule_of_the_table_and_every_rule_is_decided() {
    let mut decisions = Vec::new();
    explore(|before, command, decided| {
        if let Ok((transition, after)) = decided {
            assert_eq!(Some(transition.verb), verb_of(before, command));
            assert_eq!((before.state, transition.to), (transition.from, after.state));
            let (from, verb, to) = (before.state, transition.verb, after.state);
            decisions.push(Rule { from, verb, to, cause: after.cause });
        }
    });
    for decision in &decisions {
        assert!(RULES.contains(decision), "{decision:?} is not in the table");
    }
    for rule in RULES {
        assert!(decisions.contains(rule), "{rule:?} was never decided");
    }
}

#[test]
fn every_command_on_a_task_that_has_ended_is_refused() {
    explore(|before, command, decided| {
        if !before.state.is_terminal() {
            return;
        }
        let refused = match command {
            Command::Finish { .. } => Refused::LeaseLost,
            _ => Refused::Ended { state: before.state },
        };
        assert_eq!(decided.as_ref().err(), Some(&refused), "{} {command:?}", before.state);
    });
}
