//! G5: honest counting. Every counter is counted again from what happened, and every end is what its handler
//! did.

use std::collections::{BTreeMap, BTreeSet};

use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Verb;
use weaver_core::queue::Committed;
use weaver_core::task::{Cause, TaskRecord, TaskState};

use crate::simulation::checks::Findings;
use crate::simulation::clock::START;
use crate::simulation::history::{Entry, History, RunEnd, What};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    executions: u32,
    failures: u32,
    losses: u32,
    attempt: u32,
}

impl Count {
    fn of(record: &TaskRecord) -> Self {
        let TaskRecord { executions, failures, losses, attempt, .. } = *record;
        Self { executions, failures, losses, attempt }
    }
}

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G5");
    let mut counts: BTreeMap<&TaskKey, Count> = BTreeMap::new();
    let mut run_ends: BTreeMap<(&TaskKey, u64), RunEnd> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for Entry { at, what } in &history.entries {
        match what {
            What::Leased { grants, .. } => {
                for grant in grants.iter().filter(|grant| !grant.is_repeated()) {
                    let count = counts.entry(&grant.lease.key).or_default();
                    count.executions += 1;
                    count.attempt += 1;
                    findings.hold(Count::of(&grant.given) == *count, *at, || {
                        format!(
                            "{what}: {} has {:?}, not {count:?}",
                            grant.lease.key,
                            Count::of(&grant.given)
                        )
                    });
                }
            }
            What::Told(run, _) => {
                told.insert((&run.key, run.fence));
            }
            What::Ended(run, end) => {
                run_ends.insert((&run.key, run.fence), *end);
            }
            What::Committed { transition, answer: Committed::Applied { .. }, after: Some(after), .. } => {
                let count = counts.entry(&transition.key).or_default();
                count.failures += u32::from(matches!(transition.verb, Verb::Fail | Verb::TimeOut));
                count.losses += u32::from(transition.verb == Verb::Lose);
                findings.hold(Count::of(after) == *count, *at, || {
                    format!("{what}: it has {:?}, not {count:?}", Count::of(after))
                });
                let fence = (&transition.key, transition.expected_version.0);
                let end = run_ends.get(&fence).copied();
                // To a handler that was told to stop, failing is a way to stop.
                let released = transition.verb == Verb::Release && told.contains(&fence);
                let end = if released && end == Some(RunEnd::Failed) { Some(RunEnd::Obeyed) } else { end };
                let handler_cancels = after.cause.is_some_and(|cause| cause.to_string().contains("handler"));
                let runs_once = after.spec.runs_once();
                findings.hold(is_honest(transition.verb, end, handler_cancels, runs_once), *at, || {
                    format!("{what}: its handler {end:?}")
                });
            }
            _ => {}
        }
    }
    for record in &history.finals {
        budget(&mut findings, record);
    }
    findings
}

/// Whether this end can be reported of a handler that ended like that.
fn is_honest(verb: Verb, end: Option<RunEnd>, handler_cancels: bool, runs_once: bool) -> bool {
    match verb {
        // Its only run was cut off, or ended after its lease: nothing but failed, whatever its handler says
        // (ADR 0024).
        Verb::Fail if runs_once => true,
        // Begun, it is never given back: that would be a second run.
        Verb::Release if runs_once => end.is_none(),
        Verb::Succeed => end == Some(RunEnd::Done),
        Verb::Fail => matches!(end, Some(RunEnd::Failed | RunEnd::Obeyed)),
        Verb::Snooze => end == Some(RunEnd::Snoozed),
        Verb::TimeOut => matches!(end, Some(RunEnd::Dropped | RunEnd::Obeyed)),
        // Given back without having begun, or told to stop.
        Verb::Release => matches!(end, None | Some(RunEnd::Dropped | RunEnd::Obeyed)),
        Verb::Cancel if handler_cancels => end == Some(RunEnd::Cancelled),
        _ => true,
    }
}

/// Dead when, and only when, a budget is spent (or the error was fatal, which only the handler knows).
fn budget(findings: &mut Findings, record: &TaskRecord) {
    let spec = &record.spec;
    let at = record.finished_at.unwrap_or(START);
    let within = record.failures <= spec.max_attempts && record.losses <= spec.max_losses + 1;
    findings.hold(within, at, || format!("{}: {:?} is over budget", record.key, Count::of(record)));
    let spent = record.failures == spec.max_attempts || record.losses == spec.max_losses + 1;
    findings.hold(!spent || record.state == TaskState::Dead, at, || {
        format!("{} is {} though its budget is spent", record.key, record.state)
    });
    let lost = record.state == TaskState::Dead && record.cause == Some(Cause::Lost);
    findings.hold(!lost || record.losses == spec.max_losses + 1, at, || {
        format!("{} was given up after {} losses", record.key, record.losses)
    });
}
