//! G8: idempotent enqueue. A known idempotency key returns the first task as existing.

use std::collections::BTreeMap;

use weaver_core::id::TaskKey;

use crate::simulation::checks::Findings;
use crate::simulation::history::{Entry, History, What};

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G8");
    let mut first: BTreeMap<_, &TaskKey> = BTreeMap::new();
    for Entry { at, what } in &history.entries {
        let What::Enqueued { requested, answer, .. } = what else { continue };
        let Some(unique) = &requested.spec.idempotency_key else {
            findings.hold(!answer.existing, *at, || format!("{what}: it has no idempotency key"));
            continue;
        };
        match first.get(&(&requested.namespace, unique)) {
            Some(key) => findings
                .hold(answer.existing && answer.key == **key, *at, || format!("{what}: {unique} is {key}")),
            None => {
                findings.hold(!answer.existing, *at, || format!("{what}: {unique} is new"));
                first.insert((&requested.namespace, unique), &answer.key);
            }
        }
    }
    findings
}
