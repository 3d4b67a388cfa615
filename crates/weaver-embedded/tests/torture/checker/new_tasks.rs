//! Enqueued tasks are there, once, complete and in order; tasks that were never enqueued are not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Findings;
use super::gather::Gathered;
use crate::wire::{Answer, Line, Member, Request, Snapshot};

pub(super) fn check(gathered: &Gathered, lives: &[Vec<Line>], findings: &mut Findings) {
    let finals = lives.last().map(Vec::as_slice).unwrap_or_default();
    let by_nonce = explained(gathered, finals, findings);
    whole(lives, &by_nonce, findings);
    all_there(gathered, lives, findings);
    unique(gathered, lives, &by_nonce, findings);
}

fn snapshots(lines: &[Line]) -> impl Iterator<Item = &Snapshot> {
    lines.iter().filter_map(|line| if let Line::Saw(snapshot) = line { Some(snapshot) } else { None })
}

/// Finds the task of every nonce; each matches exactly one request.
fn explained(gathered: &Gathered, finals: &[Line], findings: &mut Findings) -> BTreeMap<u64, u64> {
    let mut by_nonce = BTreeMap::new();
    for snapshot in snapshots(finals) {
        let member = snapshot.nonce.and_then(|nonce| gathered.members.get(&nonce));
        let asked = member
            .is_some_and(|Member { queue, group, .. }| *queue == snapshot.queue && *group == snapshot.group);
        findings.hold(asked, "G1", || format!("{snapshot:?} was never requested"));
        if let Some(other) = snapshot.nonce.and_then(|nonce| by_nonce.insert(nonce, snapshot.id)) {
            findings.hold(false, "G1", || format!("tasks {other} and {} are one and the same", snapshot.id));
        }
    }
    by_nonce
}

/// Acknowledged tasks are as requested; unacknowledged batches are there completely or not at all; ids grow.
fn whole(lives: &[Vec<Line>], by_nonce: &BTreeMap<u64, u64>, findings: &mut Findings) {
    let mut newest = 0;
    for lines in lives {
        let mut open: HashMap<u64, (&Vec<Member>, u64)> = HashMap::new();
        for line in lines {
            match line {
                Line::Request(call, Request::Enqueue(members)) => {
                    open.insert(*call, (members, newest));
                }
                Line::Answer(call, Answer::Enqueued(answers)) => {
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
                            format!("task {id} was requested after {before} was acknowledged")
                        });
                        newest = newest.max(*id);
                    }
                }
                _ => {}
            }
        }
        for (members, _) in open.into_values() {
            // A task with a unique key may have existed before.
            let plain = members.iter().filter(|member| member.unique.is_none());
            let there: Vec<bool> = plain.map(|member| by_nonce.contains_key(&member.nonce)).collect();
            let whole = there.iter().all(|there| *there) || !there.iter().any(|there| *there);
            findings.hold(whole, "G1", || format!("a batch is there in part: {members:?}"));
        }
    }
}

/// A life that read everything read every task reported to a client before.
fn all_there(gathered: &Gathered, lives: &[Vec<Line>], findings: &mut Findings) {
    for (life, lines) in lives.iter().enumerate() {
        let Some(end) = lines.iter().position(|line| matches!(line, Line::SawAll(_))) else { continue };
        let seen: BTreeSet<u64> = snapshots(&lines[..end]).map(|snapshot| snapshot.id).collect();
        findings.hold(lines[end] == Line::SawAll(seen.len()), "log", || format!("life {life}: {end}"));
        for (id, log) in &gathered.tasks {
            findings.hold(log.floor(life) == 0 || seen.contains(id), "G1", || {
                format!("task {id} was acknowledged and life {life} did not find it")
            });
        }
    }
}

/// Each unique key has one task, and every answer names it (G8: an answer of "existing" is an acknowledgement
/// too).
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
                Line::Request(call, Request::Enqueue(members)) => {
                    asked.insert(*call, members);
                }
                Line::Answer(call, Answer::Enqueued(answers)) => {
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
