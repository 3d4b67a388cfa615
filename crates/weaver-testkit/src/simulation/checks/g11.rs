//! G11: cancellation. The handler is signalled soon, and its cancellation hold lasts until it has stopped.

use std::time::Duration;

use weaver_core::lifecycle::Verb;
use weaver_core::queue::Committed;
use weaver_core::task::{TaskRecord, TaskState};

use crate::simulation::checks::Findings;
use crate::simulation::checks::runs::{Span, spans};
use crate::simulation::history::{Entry, History, What};

/// Time limit of the signal on a worker without faults: one second, and two where the store can only be
/// polled. Independent of the lease duration.
const SIGNALLED_WITHIN: Duration = Duration::from_secs(2);

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G11");
    let spans = spans(history);
    for (place, entry) in history.entries.iter().enumerate() {
        match &entry.what {
            What::Committed {
                transition,
                answer: Committed::Applied { .. },
                before: Some(before),
                after,
                ..
            } if transition.verb == Verb::Cancel && before.state == TaskState::Running => {
                let running = spans.iter().find(|span| {
                    span.is_at(place) && span.run.key == before.key && span.run.fence == before.version.0
                });
                if let Some(span) = running {
                    cancelled(&mut findings, history, entry, span, after.as_deref());
                }
            }
            What::Stopped { lease, before: Some(before), after: Some(after), .. }
                if before.lease.is_some() && after.lease.is_none() =>
            {
                let over = before.lease.as_ref().is_some_and(|held| held.expires_at <= entry.at);
                let runs = |span: &&Span<'_>| {
                    span.is_at(place) && span.run.key == lease.key && span.run.fence == lease.version.0
                };
                let still = spans.iter().find(runs);
                findings.hold(over || still.is_none(), entry.at, || {
                    format!("{}: its handler still runs", entry.what)
                });
            }
            _ => {}
        }
    }
    findings
}

fn cancelled(
    findings: &mut Findings,
    history: &History,
    entry: &Entry,
    span: &Span<'_>,
    after: Option<&TaskRecord>,
) {
    let held = after.is_some_and(|after| after.state == TaskState::Cancelled && after.lease.is_some());
    findings.hold(held, entry.at, || format!("{}: its handler has no cancellation hold", entry.what));
    let plan = history.scenario.workers.iter().find(|plan| plan.name == span.run.worker);
    if !plan.is_some_and(|plan| plan.is_fault_free()) {
        return;
    }
    let deadline = entry.at.saturating_add(SIGNALLED_WITHIN);
    let stop_requested =
        span.stop_requested.is_some_and(|(at, _)| at <= deadline) || span.ended_at <= deadline;
    findings.hold(stop_requested, entry.at, || {
        format!("{}: {} was signalled at {:?}", entry.what, span.run, span.stop_requested)
    });
}
