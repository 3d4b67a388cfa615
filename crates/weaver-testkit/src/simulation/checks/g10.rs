//! G10: events. Every transition is published, in order per task, and nothing else is.

use std::collections::BTreeMap;

use weaver_core::id::{TaskKey, Version};
use weaver_core::queue::Committed;
use weaver_core::task::{TaskRecord, TaskState};

use crate::simulation::checks::Findings;
use crate::simulation::clock::START;
use crate::simulation::history::{Entry, History, What};

type Moves<'a> = BTreeMap<&'a TaskKey, Vec<(Version, TaskState)>>;

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G10");
    let (mut made, mut published) = (Moves::new(), Moves::new());
    for Entry { at, what } in &history.entries {
        let mut moved = |record: &'_ TaskRecord, key| {
            made.entry(key).or_default().push((record.version, record.state));
        };
        match what {
            What::Enqueued { answer, record: Some(record), .. } if !answer.existing => {
                moved(record, &answer.key);
            }
            What::Leased { grants, .. } => {
                for grant in grants.iter().filter(|grant| !grant.is_repeated()) {
                    moved(&grant.given, &grant.lease.key);
                }
            }
            What::Committed { transition, answer: Committed::Applied { .. }, after: Some(after), .. } => {
                moved(after, &transition.key);
            }
            What::Published(change) => {
                let seen = published.entry(&change.key).or_default();
                // At-least-once: a duplicate is allowed.
                if seen.last() != Some(&(change.version, change.state)) {
                    seen.push((change.version, change.state));
                }
            }
            What::Resync => findings.hold(false, *at, || "the change stream has a gap".to_owned()),
            _ => {}
        }
    }
    for (key, moves) in &made {
        let seen = published.get(key);
        findings.hold(seen == Some(moves), START, || {
            format!("{key} made the transitions {moves:?}, published were {seen:?}")
        });
    }
    findings
}
