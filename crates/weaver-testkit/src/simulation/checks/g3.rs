//! G3: liveness. An expired lease is recorded soon, and every task finishes.

use std::time::Duration;

use weaver_core::lifecycle::Verb;
use weaver_core::queue::Committed;

use crate::simulation::checks::Findings;
use crate::simulation::clock::START;
use crate::simulation::history::{Entry, History, What};

/// Time after lease expiry, or after the last fault if that is later, within which the expiry must be
/// recorded.
const RECORDED_WITHIN: Duration = Duration::from_secs(20);

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G3");
    let faults_end = START.saturating_add(history.scenario.faults_end);
    for Entry { at, what } in &history.entries {
        match what {
            What::Stranded(keys) => {
                findings.hold(false, *at, || format!("{keys:?} are unfinished or held"));
            }
            What::Hung(who) => findings.hold(false, *at, || format!("{who} does not stop")),
            What::Committed {
                transition, answer: Committed::Applied { .. }, before: Some(before), ..
            } if transition.verb == Verb::ExpireLease => {
                let end = before.lease.as_ref().map_or(*at, |held| held.expires_at);
                let late = at.since(end.max(faults_end));
                findings.hold(late <= RECORDED_WITHIN, *at, || format!("{what}: recorded {late:?} late"));
            }
            _ => {}
        }
    }
    findings
}
