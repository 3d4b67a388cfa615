//! G7: order. Every lease call takes exactly the first tasks; tasks of one serial key never overlap.

use std::collections::BTreeMap;

use weaver_core::name::{Namespace, SerialKey};

use crate::simulation::checks::Findings;
use crate::simulation::checks::runs::{Span, spans};
use crate::simulation::checks::shadow::Shadow;
use crate::simulation::history::{Entry, Grant, History, What};

pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::of("G7");
    let mut shadow = Shadow::default();
    for entry in &history.entries {
        if let What::Leased { grants, .. } = &entry.what {
            taken(&mut findings, entry, grants, &mut shadow);
        }
        shadow.follow(&entry.what);
    }
    let spans = spans(history);
    serial(&mut findings, history, &spans);
    line(&mut findings, history, &spans);
    findings
}

/// A lease call is atomic, so it takes the first, then the next, and stops only when nothing is left.
fn taken<'a>(findings: &mut Findings, entry: &'a Entry, grants: &'a [Grant], shadow: &mut Shadow<'a>) {
    let What::Leased { request, .. } = &entry.what else { return };
    if grants.iter().any(Grant::is_repeated) {
        return;
    }
    let mut slots = request.slots;
    for grant in grants {
        let first = shadow.next(request, slots, entry.at);
        let key = &grant.lease.key;
        findings.hold(first.is_some_and(|first| first.key == *key), entry.at, || {
            format!("{}: {key} was taken, {:?} comes first", entry.what, first.map(|first| &first.key))
        });
        let fragile =
            grant.before.as_ref().is_some_and(|before| before.losses > 0 || before.spec.max_losses == 0);
        slots = slots.saturating_sub(u32::from(fragile));
        grant.after.iter().for_each(|after| shadow.put(after));
    }
    if grants.len() < request.max as usize {
        let left = shadow.next(request, slots, entry.at);
        findings.hold(left.is_none(), entry.at, || {
            format!("{}: {:?} was left", entry.what, left.map(|left| &left.key))
        });
    }
}

/// Handlers of one serial key never overlap.
fn serial(findings: &mut Findings, history: &History, spans: &[Span<'_>]) {
    let keys: BTreeMap<_, _> =
        history.known.iter().map(|record| (&record.key, &record.spec.serial_key)).collect();
    let mut by_key: BTreeMap<(&Namespace, &SerialKey), Vec<&Span<'_>>> = BTreeMap::new();
    for span in spans {
        if let Some(Some(serial)) = keys.get(&span.run.key) {
            by_key.entry((&span.run.key.namespace, serial)).or_default().push(span);
        }
    }
    for ((_, key), spans) in by_key {
        for (index, span) in spans.iter().enumerate() {
            for later in &spans[index + 1..] {
                findings.hold(!span.overlaps(later), later.began_at, || {
                    format!("{} begins while {} runs, both of {key}", later.run, span.run)
                });
            }
        }
    }
}

/// A worker with concurrency 1 runs the tasks of one lease call in their order.
fn line(findings: &mut Findings, history: &History, spans: &[Span<'_>]) {
    for plan in history.scenario.workers.iter().filter(|plan| plan.concurrency == 1) {
        let began: BTreeMap<_, _> = spans
            .iter()
            .filter(|span| span.run.worker == plan.name)
            .map(|span| ((&span.run.key, span.run.fence), span.began))
            .collect();
        for Entry { at, what } in &history.entries {
            let What::Leased { request, grants } = what else { continue };
            if request.worker.as_str() != plan.name || grants.iter().any(Grant::is_repeated) {
                continue;
            }
            // Fragile ones start at once, before the others of their call; among themselves all keep their
            // order.
            for fragile in [false, true] {
                let alike = grants.iter().filter(|grant| grant.given.is_fragile() == fragile);
                let place = |grant: &Grant| began.get(&(&grant.lease.key, grant.lease.version.0)).copied();
                let places: Vec<_> = alike.filter_map(place).collect();
                findings.hold(places.is_sorted(), *at, || format!("{what}: run in another order"));
            }
        }
    }
}
