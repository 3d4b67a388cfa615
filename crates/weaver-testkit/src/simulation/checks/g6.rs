//! G6: not before its time. The due time is recomputed from the request and the time it was stored.

use std::collections::BTreeMap;

use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Verb;
use weaver_core::queue::Committed;
use weaver_core::task::Start;
use weaver_core::time::Timestamp;

use crate::simulation::checks::Findings;
use crate::simulation::history::{Entry, History, What};

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G6");
    let mut due: BTreeMap<&TaskKey, Timestamp> = BTreeMap::new();
    for Entry { at, what } in &history.entries {
        match what {
            What::Enqueued { requested, answer, .. } if !answer.existing => {
                let ready_at = match requested.start {
                    Start::Now => *at,
                    Start::After(delay) => at.saturating_add(delay),
                    Start::At(instant) => instant,
                };
                due.insert(&answer.key, ready_at);
            }
            What::Committed { transition, answer: Committed::Applied { .. }, .. } => {
                if let Some(delay) = transition.ready_after {
                    let ready_at = at.saturating_add(delay);
                    let known = due.entry(&transition.key).or_insert(ready_at);
                    *known = if transition.verb == Verb::RunNow { ready_at.min(*known) } else { ready_at };
                }
            }
            What::Leased { grants, .. } => {
                for grant in grants {
                    let ready_at = due.get(&grant.lease.key);
                    findings.hold(ready_at.is_some_and(|ready_at| ready_at <= at), *at, || {
                        format!("{what}: {} is not due before {ready_at:?}", grant.lease.key)
                    });
                    let late = grant.given.executions == 1
                        && grant.given.spec.expires_at.is_some_and(|end| end <= *at)
                        && !grant.is_repeated();
                    findings.hold(!late, *at, || format!("{what}: {} had expired", grant.lease.key));
                }
            }
            What::Began(run) => {
                let ready_at = due.get(&run.key);
                findings.hold(ready_at.is_some_and(|ready_at| ready_at <= at), *at, || {
                    format!("{what}: it is not due before {ready_at:?}")
                });
            }
            _ => {}
        }
    }
    findings
}
