//! G2: fencing. Only the valid lease can write, and no handler runs past its lease expiry.

use std::collections::BTreeMap;

use weaver_core::id::TaskKey;
use weaver_core::lease::Renewed;
use weaver_core::lifecycle::Verb;
use weaver_core::queue::Committed;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::Timestamp;

use crate::simulation::checks::Findings;
use crate::simulation::checks::runs::spans;
use crate::simulation::history::{Entry, Grant, History, What};

/// Expiry of each lease as the store knows it, by task and fencing token.
type LeaseEnds = BTreeMap<(TaskKey, u64), Timestamp>;

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G2");
    let mut ends = LeaseEnds::new();
    for entry in &history.entries {
        let Entry { at, what } = entry;
        match what {
            What::Leased { request, grants } => {
                for grant in grants {
                    let own = grant.lease.token == request.token && grant.lease.worker == request.worker;
                    findings.hold(own, *at, || format!("{what}: lease of another worker"));
                    granted(&mut findings, entry, grant);
                    if !grant.is_repeated() {
                        let fence = (grant.lease.key.clone(), grant.lease.version.0);
                        ends.insert(fence, at.saturating_add(grant.lease.ttl));
                    }
                }
            }
            What::Renewed { lease, answer, before, after } => {
                renewed(&mut findings, entry, lease.version.0, before.as_deref(), after.as_deref());
                if *answer == Renewed::Extended {
                    ends.insert((lease.key.clone(), lease.version.0), at.saturating_add(lease.ttl));
                }
            }
            What::Committed { .. } => committed(&mut findings, entry, &ends),
            What::Ended(run, _) => {
                let end = ends.get(&(run.key.clone(), run.fence));
                findings.hold(end.is_some_and(|end| at <= end), *at, || {
                    format!("{what}: after its lease expired at {end:?}")
                });
            }
            _ => {}
        }
    }
    handlers(&mut findings, history);
    findings
}

fn granted(findings: &mut Findings, entry: &Entry, grant: &Grant) {
    if grant.is_repeated() {
        return;
    }
    let before = grant.before.as_deref();
    let free = before.is_some_and(|record| record.state.is_waiting() && record.lease.is_none());
    findings.hold(free, entry.at, || format!("{}: {} was not free", entry.what, grant.lease.key));
    let fenced = before.is_some_and(|record| grant.lease.version == record.version.next());
    findings.hold(fenced, entry.at, || {
        format!("{}: the fencing token of {} does not grow", entry.what, grant.lease.key)
    });
}

fn renewed(
    findings: &mut Findings,
    entry: &Entry,
    version: u64,
    before: Option<&TaskRecord>,
    after: Option<&TaskRecord>,
) {
    let What::Renewed { answer, lease, .. } = &entry.what else { return };
    let (Some(before), Some(after)) = (before, after) else { return };
    findings
        .hold(before.version == after.version, entry.at, || format!("{}: the version changed", entry.what));
    if *answer == Renewed::Extended {
        let held = before.lease.as_ref().is_some_and(|held| held.token == lease.token);
        let valid = before.state == TaskState::Running && before.version.0 == version && held;
        findings.hold(valid, entry.at, || format!("{}: the lease was not valid", entry.what));
    } else {
        findings.hold(before == after, entry.at, || format!("{}: it changed something", entry.what));
    }
}

fn committed(findings: &mut Findings, entry: &Entry, ends: &LeaseEnds) {
    let What::Committed { transition, answer, before, after, .. } = &entry.what else { return };
    let Committed::Applied { version } = answer else {
        return findings.hold(before == after, entry.at, || format!("{}: it changed something", entry.what));
    };
    let Some(before) = before else {
        return findings.hold(false, entry.at, || format!("{}: the task does not exist", entry.what));
    };
    let fits = before.version == transition.expected_version && before.state == transition.from;
    findings.hold(fits, entry.at, || format!("{}: it was decided on another version", entry.what));
    let moved = after.as_ref().is_some_and(|after| {
        after.version == *version && after.version == before.version.next() && after.state == transition.to
    });
    findings.hold(moved, entry.at, || format!("{}: the stored record differs from the decision", entry.what));
    if transition.verb == Verb::ExpireLease {
        let end = ends.get(&(before.key.clone(), before.version.0));
        let over = end.is_some_and(|end| *end <= entry.at);
        findings.hold(over, entry.at, || format!("{}: its lease is valid until {end:?}", entry.what));
    }
}

/// Handlers of one task never overlap, and each ends.
fn handlers(findings: &mut Findings, history: &History) {
    let spans = spans(history);
    for (index, span) in spans.iter().enumerate() {
        findings.hold(span.end.is_some(), span.began_at, || format!("{} never ends", span.run));
        for later in spans[index + 1..].iter().filter(|later| later.run.key == span.run.key) {
            findings.hold(!span.overlaps(later), later.began_at, || {
                format!("{} begins while {} runs", later.run, span.run)
            });
        }
    }
}
