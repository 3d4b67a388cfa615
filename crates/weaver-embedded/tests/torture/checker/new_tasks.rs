//! What was enqueued is there, once and whole, in order; what nobody enqueued is not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Findings;
use super::gather::Gathered;
use crate::wire::{Ask, Line, Member, Sight, Told};

pub(super) fn check(gathered: &Gathered, lives: &[Vec<Line>], findings: &mut Findings) {
    let finals = lives.last().map(Vec::as_slice).unwrap_or_default();
    let by_nonce = explained(gathered, finals, findings);
    whole(lives, &by_nonce, findings);
    all_there(gathered, lives, findings);
    unique(gathered, lives, &by_nonce, findings);
}

fn sights(lines: &[Line]) -> impl Iterator<Item = &Sight> {
    lines.iter().filter_map(|line| if let Line::Saw(sight) = line { Some(sight) } else { None })
}

/// Finds the task of every nonce; each has exactly one that asked for it.
fn explained(gathered: &Gathered, finals: &[Line], findings: &mut Findings) -> BTreeMap<u64, u64> {
    let mut by_nonce = BTreeMap::new();
    for sight in sights(finals) {
        let member = sight.nonce.and_then(|nonce| gathered.members.get(&nonce));
        let asked =
            member.is_some_and(|Member { queue, group, .. }| *queue == sight.queue && *group == sight.group);
        findings.hold(asked, "G1", || format!("nobody asked for {sight:?}"));
        if let Some(other) = sight.nonce.and_then(|nonce| by_nonce.insert(nonce, sight.id)) {
            findings.hold(false, "G1", || format!("tasks {other} and {} are one and the same", sight.id));
        }
    }
    by_nonce
}

/// What was answered is what was asked for; what was not is there as a whole or not at all; ids grow.
fn whole(lives: &[Vec<Line>], by_nonce: &BTreeMap<u64, u64>, findings: &mut Findings) {
    let mut newest = 0;
    for lines in lives {
        let mut open: HashMap<u64, (&Vec<Member>, u64)> = HashMap::new();
        for line in lines {
            match line {
                Line::Ask(call, Ask::Enqueue(members)) => {
                    open.insert(*call, (members, newest));
                }
                Line::Told(call, Told::Enqueued(answers)) => {
                    let Some((members, before)) = open.remove(call) else { continue };
                    findings.hold(members.len() == answers.len(), "G1", || format!("{answers:?}: too few"));
                    for (member, (id, existing)) in members.iter().zip(answers) {
                        if *existing {
                            continue;
                        }
                        let found = by_nonce.get(&member.nonce);
                        findings.hold(found == Some(id), "G1", || {
                            format!("task {id} was acknowledged; its payload is that of {found:?}")
                        });
                        findings.hold(*id > before, "G1", || {
                            format!("task {id} was asked for after {before} was acknowledged")
                        });
                        newest = newest.max(*id);
                    }
                }
                _ => {}
            }
        }
        for (members, _) in open.into_values() {
            // One with a unique key may have been there before.
            let plain = members.iter().filter(|member| member.unique.is_none());
            let there: Vec<bool> = plain.map(|member| by_nonce.contains_key(&member.nonce)).collect();
            let whole = there.iter().all(|there| *there) || !there.iter().any(|there| *there);
            findings.hold(whole, "G1", || format!("a batch is there in part: {members:?}"));
        }
    }
}

/// A life that saw everything saw every task that anybody was told of before.
fn all_there(gathered: &Gathered, lives: &[Vec<Line>], findings: &mut Findings) {
    for (life, lines) in lives.iter().enumerate() {
        let Some(end) = lines.iter().position(|line| matches!(line, Line::SawAll(_))) else { continue };
        let seen: BTreeSet<u64> = sights(&lines[..end]).map(|sight| sight.id).collect();
        findings.hold(lines[end] == Line::SawAll(seen.len()), "log", || format!("life {life}: {end}"));
        for (id, said) in &gathered.tasks {
            findings.hold(said.floor(life) == 0 || seen.contains(id), "G1", || {
                format!("task {id} was acknowledged and life {life} did not find it")
            });
        }
    }
}

/// Of one unique key there is one task, and every answer names it (G8: an answer of "already there" is a
/// promise too).
fn unique(gathered: &Gathered, lives: &[Vec<Line>], by_nonce: &BTreeMap<u64, u64>, findings: &mut Findings) {
    let mut owners: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (nonce, id) in by_nonce {
        if let Some(key) = gathered.members.get(nonce).and_then(|member| member.unique.as_deref()) {
            owners.entry(key).or_default().insert(*id);
        }
    }
    for lines in lives {
        let mut asked: HashMap<u64, &Vec<Member>> = HashMap::new();
        for line in lines {
            match line {
                Line::Ask(call, Ask::Enqueue(members)) => {
                    asked.insert(*call, members);
                }
                Line::Told(call, Told::Enqueued(answers)) => {
                    let members = asked.get(call).into_iter().flat_map(|members| members.iter());
                    for (member, (id, _)) in members.zip(answers) {
                        if let Some(key) = &member.unique {
                            owners.entry(key).or_default().insert(*id);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    for (key, ids) in owners {
        findings.hold(ids.len() == 1, "G8", || format!("{key} was given to tasks {ids:?}"));
    }
}
