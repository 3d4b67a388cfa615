//! G9: isolation. No call leases, runs or lists tasks of another namespace.

use std::collections::BTreeSet;

use crate::simulation::checks::Findings;
use crate::simulation::clock::START;
use crate::simulation::history::{Entry, History, What};

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G9");
    let mut stored = BTreeSet::new();
    for Entry { at, what } in &history.entries {
        match what {
            What::Enqueued { requested, answer, .. } => {
                let inside = answer.key.namespace == requested.namespace;
                findings.hold(inside, *at, || format!("{what}: requested for {}", requested.namespace));
                stored.insert(&answer.key);
            }
            What::Leased { request, grants } => {
                for grant in grants {
                    let inside = grant.lease.key.namespace == request.namespace;
                    findings
                        .hold(inside, *at, || format!("{what}: {} is in another namespace", grant.lease.key));
                }
            }
            What::Began(run) => {
                let plan = history.scenario.workers.iter().find(|plan| plan.name == run.worker);
                let serves = |name: &&str| *name == run.key.namespace.as_str();
                let served = plan.is_some_and(|plan| plan.namespaces.iter().any(serves));
                findings.hold(served, *at, || format!("{what}: its worker does not serve that namespace"));
            }
            _ => {}
        }
    }
    for record in &history.finals {
        let known = stored.contains(&record.key);
        findings.hold(known, START, || format!("{} is listed and was never enqueued", record.key));
    }
    findings
}
