//! G1: durability. Whatever was acknowledged, leased or published is stored at the end, unchanged.

use std::collections::BTreeMap;

use crate::simulation::checks::Findings;
use crate::simulation::history::{History, What};

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G1");
    let finals: BTreeMap<_, _> = history.finals.iter().map(|record| (&record.key, record)).collect();
    for entry in &history.entries {
        match &entry.what {
            What::Acknowledged(key) => findings.hold(finals.contains_key(key), entry.at, || {
                format!("{key} was acknowledged but is not stored")
            }),
            What::Enqueued { requested, answer, record, .. } => {
                let stored =
                    record.as_ref().is_some_and(|record| answer.existing || record.spec == requested.spec);
                findings.hold(stored, entry.at, || {
                    format!("{} was answered but is stored differently", answer.key)
                });
            }
            What::Leased { grants, .. } => {
                for grant in grants {
                    findings.hold(grant.after.as_deref() == Some(&*grant.given), entry.at, || {
                        format!("{} was leased but is stored differently", grant.lease.key)
                    });
                }
            }
            What::Published(change) => {
                let known = finals.get(&change.key).is_some_and(|record| record.version >= change.version);
                findings.hold(known, entry.at, || {
                    format!("{} {} was published but is not stored", change.key, change.version)
                });
            }
            _ => {}
        }
    }
    let at = history.entries.last().map_or(crate::simulation::START, |entry| entry.at);
    for record in &history.known {
        findings.hold(finals.get(&record.key) == Some(&record), at, || {
            format!("{} differs from the result of the last call", record.key)
        });
    }
    findings
}
