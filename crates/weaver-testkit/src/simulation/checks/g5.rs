//! G5: honest counting. Every counter is recomputed from the history, and every outcome matches its handler.

use std::collections::{BTreeMap, BTreeSet};

use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Verb;
use weaver_core::queue::Committed;
use weaver_core::task::{Cause, TaskRecord, TaskState};

use crate::simulation::checks::Findings;
use crate::simulation::clock::START;
use crate::simulation::history::{Entry, History, RunOutcome, What};

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
    let mut run_ends: BTreeMap<(&TaskKey, u64), RunOutcome> = BTreeMap::new();
    let mut stop_requested = BTreeSet::new();
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
            What::StopRequested(run, _) => {
                stop_requested.insert((&run.key, run.fence));
            }
            What::Ended(run, end) => {
                run_ends.insert((&run.key, run.fence), *end);
            }
            What::Committed { transition, answer: Committed::Applied { .. }, after: Some(after), .. } => {
                let count = counts.entry(&transition.key).or_default();
                count.failures += u32::from(matches!(transition.verb, Verb::Fail | Verb::TimeOut));
                count.losses += u32::from(transition.verb == Verb::ExpireLease);
                findings.hold(Count::of(after) == *count, *at, || {
                    format!("{what}: it has {:?}, not {count:?}", Count::of(after))
                });
                let fence = (&transition.key, transition.expected_version.0);
                let end = run_ends.get(&fence).copied();
                // A handler that was asked to stop may stop by failing.
                let released = transition.verb == Verb::Release && stop_requested.contains(&fence);
                let end =
                    if released && end == Some(RunOutcome::Failed) { Some(RunOutcome::Stopped) } else { end };
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

/// Whether this outcome can be reported for a handler that ended like that.
fn is_honest(verb: Verb, end: Option<RunOutcome>, handler_cancels: bool, runs_once: bool) -> bool {
    match verb {
        // Its only run was aborted, or ended after its lease expired: only failed, whatever the handler
        // returned (ADR 0024).
        Verb::Fail if runs_once => true,
        // Once started, it is never released: that would be a second run.
        Verb::Release if runs_once => end.is_none(),
        Verb::Succeed => end == Some(RunOutcome::Done),
        Verb::Fail => matches!(end, Some(RunOutcome::Failed | RunOutcome::Stopped)),
        Verb::Snooze => end == Some(RunOutcome::Snoozed),
        Verb::TimeOut => matches!(end, Some(RunOutcome::Dropped | RunOutcome::Stopped)),
        // Released before it started, or after it was asked to stop.
        Verb::Release => matches!(end, None | Some(RunOutcome::Dropped | RunOutcome::Stopped)),
        Verb::Cancel if handler_cancels => end == Some(RunOutcome::Cancelled),
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
        format!("{} is dead after {} losses", record.key, record.losses)
    });
}
