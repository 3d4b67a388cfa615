//! Every version of every task is explained by exactly one call, and looks as that call left it.

use super::Findings;
use super::gather::{Gathered, Said};
use super::model::{Held, Model, Step};
use crate::wire::Sight;

pub(super) fn check(gathered: &Gathered, findings: &mut Findings) {
    for (id, said) in &gathered.tasks {
        nothing_was_lost(*id, said, findings);
        renewals(*id, said, findings);
        holds(*id, said, findings);
        let nonce = said.sights.iter().find_map(|(_, sight)| sight.nonce);
        if let Some(member) = nonce.and_then(|nonce| gathered.members.get(&nonce)) {
            explain(*id, said, Model::new(member), gathered, findings);
        }
    }
}

/// Whatever anybody was told of, no later life shows less (G1).
fn nothing_was_lost(id: u64, said: &Said, findings: &mut Findings) {
    for (life, sight) in &said.sights {
        let floor = said.floor(*life);
        findings.hold(sight.version >= floor, "G1", || {
            format!("version {floor} of task {id} was acknowledged, and life {life} found {}", sight.version)
        });
    }
    for (version, steps) in &said.acknowledged {
        findings.hold(steps.len() == 1, "G2", || {
            format!("version {version} of task {id} was made more than once: {steps:?}")
        });
    }
}

/// A renewal moves no version: its number tells whether it survived (G1).
fn renewals(id: u64, said: &Said, findings: &mut Findings) {
    let all = said.renewed.len() as u64 + said.renewals_open;
    for (life, sight) in &said.sights {
        let least = said.renewed.iter().filter(|told| *told < life).count() as u64;
        findings.hold((least..=all).contains(&sight.renewals), "G1", || {
            format!("task {id} was renewed {least} times or more, and life {life} found {}", sight.renewals)
        });
    }
}

/// A hold that was ended does not come back, and none goes by itself (G1).
fn holds(id: u64, said: &Said, findings: &mut Findings) {
    for (life, sight) in said.sights.iter().filter(|(_, sight)| sight.state.is_terminal()) {
        let of_it = || said.stopped.iter().filter(|(_, version, _)| version + 1 == sight.version);
        let ended = of_it().any(|(told, _, acknowledged)| *acknowledged && told < life);
        findings.hold(!ended || sight.token.is_none(), "G1", || {
            format!("the end of the hold on task {id} was acknowledged, and life {life} found it")
        });
    }
}

fn explain(id: u64, said: &Said, first: Model, gathered: &Gathered, findings: &mut Findings) {
    let last = said.witnessed.iter().map(|(_, version)| *version).max().unwrap_or(0);
    let mut worlds = vec![first];
    for version in 1..=last {
        if version > 1 {
            let before = worlds;
            worlds = step(&before, version, said, gathered);
            if worlds.is_empty() {
                let ended = before.iter().all(|model| model.state.is_terminal());
                let guarantee = if ended { "G4" } else { "G1" };
                return findings.hold(false, guarantee, || {
                    let steps = said.acknowledged.get(&version);
                    format!("nothing explains version {version} of task {id} ({steps:?}) after {before:?}")
                });
            }
        }
        for (_, published, state) in said.published.iter().filter(|(_, seen, _)| *seen == version) {
            worlds.retain(|model| model.state == *state);
            if worlds.is_empty() {
                return findings.hold(false, "G10", || {
                    format!("version {published} of task {id} was published as {state}")
                });
            }
        }
        for (life, sight) in said.sights.iter().filter(|(_, sight)| sight.version == version) {
            let before = worlds;
            worlds = before.iter().filter_map(|model| seen_as(model, sight, said, gathered)).collect();
            if worlds.is_empty() {
                let miscounted =
                    before.iter().any(|model| model.looks_like(sight) && !model.counts_as(sight));
                let guarantee = if miscounted { "G5" } else { "G1" };
                return findings.hold(false, guarantee, || {
                    format!("life {life} saw {sight:?}, and by what was said it is one of {before:?}")
                });
            }
        }
    }
}

/// The worlds one version later: by the call that was acknowledged, or by any that was never answered.
fn step(worlds: &[Model], version: u64, said: &Said, gathered: &Gathered) -> Vec<Model> {
    let mut steps = said.acknowledged.get(&version).cloned().unwrap_or_default();
    if steps.is_empty() {
        steps = said.open.get(&version).cloned().unwrap_or_default();
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

/// The model, if a look at the task is a look at it; it then knows who holds it.
fn seen_as(model: &Model, sight: &Sight, said: &Said, gathered: &Gathered) -> Option<Model> {
    (model.looks_like(sight) && model.counts_as(sight)).then_some(())?;
    let held = match (model.held, sight.token) {
        (Held::Nobody, None) => Held::Nobody,
        (Held::By(token), Some(seen)) if token == seen => Held::By(token),
        (Held::Unseen, Some(seen)) if gathered.open_tokens.contains(&seen) => Held::By(seen),
        // A hold that somebody ended.
        (held, None) if model.state.is_terminal() => {
            let ended = said.stopped.iter().any(|(_, version, _)| version + 1 == model.version);
            ended.then_some(held)?
        }
        _ => return None,
    };
    let mut seen = model.clone();
    seen.held = held;
    Some(seen)
}
