//! Every version of every task was made by exactly one call, and matches that call.

use super::Findings;
use super::gather::{Gathered, TaskLog};
use super::model::{Held, Model, Step};
use crate::wire::Snapshot;

pub(super) fn check(gathered: &Gathered, findings: &mut Findings) {
    for (id, log) in &gathered.tasks {
        nothing_was_lost(*id, log, findings);
        renewals(*id, log, findings);
        holds(*id, log, findings);
        let nonce = log.snapshots.iter().find_map(|(_, snapshot)| snapshot.nonce);
        if let Some(member) = nonce.and_then(|nonce| gathered.members.get(&nonce)) {
            explain(*id, log, Model::new(member), gathered, findings);
        }
    }
}

/// No later life shows an older version than one reported to a client (G1).
fn nothing_was_lost(id: u64, log: &TaskLog, findings: &mut Findings) {
    for (life, snapshot) in &log.snapshots {
        let floor = log.floor(*life);
        findings.hold(snapshot.version >= floor, "G1", || {
            format!(
                "version {floor} of task {id} was acknowledged, and life {life} found {}",
                snapshot.version
            )
        });
    }
    for (version, steps) in &log.acknowledged {
        findings.hold(steps.len() == 1, "G2", || {
            format!("version {version} of task {id} was made more than once: {steps:?}")
        });
    }
}

/// A renewal does not change the version: the number of renewals shows whether it survived (G1).
fn renewals(id: u64, log: &TaskLog, findings: &mut Findings) {
    let all = log.renewed.len() as u64 + log.renewals_open;
    for (life, snapshot) in &log.snapshots {
        let least = log.renewed.iter().filter(|renewed| *renewed < life).count() as u64;
        findings.hold((least..=all).contains(&snapshot.renewals), "G1", || {
            format!(
                "task {id} was renewed {least} times or more, and life {life} found {}",
                snapshot.renewals
            )
        });
    }
}

/// An ended cancellation hold does not come back (G1).
fn holds(id: u64, log: &TaskLog, findings: &mut Findings) {
    for (life, snapshot) in log.snapshots.iter().filter(|(_, snapshot)| snapshot.state.is_terminal()) {
        let of_it = || log.stopped.iter().filter(|(_, version, _)| version + 1 == snapshot.version);
        let ended = of_it().any(|(stopped, _, acknowledged)| *acknowledged && stopped < life);
        findings.hold(!ended || snapshot.token.is_none(), "G1", || {
            format!("the end of the hold on task {id} was acknowledged, and life {life} found it")
        });
    }
}

fn explain(id: u64, log: &TaskLog, first: Model, gathered: &Gathered, findings: &mut Findings) {
    let last = log.witnessed.iter().map(|(_, version)| *version).max().unwrap_or(0);
    let mut worlds = vec![first];
    for version in 1..=last {
        if version > 1 {
            let before = worlds;
            worlds = step(&before, version, log, gathered);
            if worlds.is_empty() {
                let ended = before.iter().all(|model| model.state.is_terminal());
                let guarantee = if ended { "G4" } else { "G1" };
                return findings.hold(false, guarantee, || {
                    let steps = log.acknowledged.get(&version);
                    format!("nothing explains version {version} of task {id} ({steps:?}) after {before:?}")
                });
            }
        }
        for (_, published, state) in log.published.iter().filter(|(_, seen, _)| *seen == version) {
            worlds.retain(|model| model.state == *state);
            if worlds.is_empty() {
                return findings.hold(false, "G10", || {
                    format!("version {published} of task {id} was published as {state}")
                });
            }
        }
        for (life, snapshot) in log.snapshots.iter().filter(|(_, snapshot)| snapshot.version == version) {
            let before = worlds;
            worlds = before.iter().filter_map(|model| seen_as(model, snapshot, log, gathered)).collect();
            if worlds.is_empty() {
                let miscounted =
                    before.iter().any(|model| model.looks_like(snapshot) && !model.counts_as(snapshot));
                let guarantee = if miscounted { "G5" } else { "G1" };
                return findings.hold(false, guarantee, || {
                    format!("life {life} saw {snapshot:?}; by the log it is one of {before:?}")
                });
            }
        }
    }
}

/// The possible models one version later: by the acknowledged call, or by any unanswered one.
fn step(worlds: &[Model], version: u64, log: &TaskLog, gathered: &Gathered) -> Vec<Model> {
    let mut steps = log.acknowledged.get(&version).cloned().unwrap_or_default();
    if steps.is_empty() {
        steps = log.open.get(&version).cloned().unwrap_or_default();
        if !gathered.open_tokens.is_empty() {
            steps.push(Step::UnseenLease);
        }
    }
    let mut next: Vec<Model> = Vec::new();
    for model in worlds.iter().flat_map(|model| steps.iter().filter_map(|step| model.after(step))) {
        if !next.contains(&model) {
            next.push(model);
        }
    }
    next
}

/// The model if it matches the snapshot, with the lease token that the snapshot shows.
fn seen_as(model: &Model, snapshot: &Snapshot, log: &TaskLog, gathered: &Gathered) -> Option<Model> {
    (model.looks_like(snapshot) && model.counts_as(snapshot)).then_some(())?;
    let held = match (model.held, snapshot.token) {
        (Held::Free, None) => Held::Free,
        (Held::By(token), Some(seen)) if token == seen => Held::By(token),
        (Held::Unseen, Some(seen)) if gathered.open_tokens.contains(&seen) => Held::By(seen),
        // An ended cancellation hold.
        (held, None) if model.state.is_terminal() => {
            let ended = log.stopped.iter().any(|(_, version, _)| version + 1 == model.version);
            ended.then_some(held)?
        }
        _ => return None,
    };
    let mut seen = model.clone();
    seen.held = held;
    Some(seen)
}
