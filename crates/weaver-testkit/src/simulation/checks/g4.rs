//! G4: terminal is final.

use weaver_core::task::TaskRecord;

use crate::simulation::checks::Findings;
use crate::simulation::history::{Entry, History, What};

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G4");
    for Entry { at, what } in &history.entries {
        let mut hold = |before: &Option<Box<TaskRecord>>, after: &Option<Box<TaskRecord>>| {
            let Some(before) = before.as_deref().filter(|before| before.state.is_terminal()) else { return };
            // Only the end of its cancellation hold may change a terminal task.
            let same = |after: &TaskRecord| {
                let lease = after.lease.clone().filter(|_| after.lease == before.lease);
                lease == after.lease && TaskRecord { lease: before.lease.clone(), ..after.clone() } == *before
            };
            findings.hold(after.as_deref().is_some_and(same), *at, || format!("{what}: it was terminal"));
        };
        match what {
            What::Committed { before, after, .. }
            | What::Renewed { before, after, .. }
            | What::Stopped { before, after, .. } => hold(before, after),
            What::Leased { grants, .. } => {
                grants.iter().for_each(|grant| hold(&grant.before, &grant.after));
            }
            _ => {}
        }
    }
    findings
}
