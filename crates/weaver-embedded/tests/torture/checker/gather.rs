//! Collects the lines about each task.

use std::collections::{BTreeMap, HashMap, HashSet};

use weaver_core::id::LeaseToken;
use weaver_core::task::TaskState;

use super::Findings;
use super::model::Step;
use crate::wire::{Answer, Line, Member, Move, Request, Snapshot, Verdict};

/// All lines, by task.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) tasks: BTreeMap<u64, TaskLog>,
    /// Every requested task, by nonce.
    pub(super) members: HashMap<u64, Member>,
    /// Lease calls that were never answered.
    pub(super) open_tokens: HashSet<LeaseToken>,
}

/// The lines about one task.
#[derive(Debug, Default)]
pub(super) struct TaskLog {
    /// Acknowledged transitions, by the version they made. More than one per version is a violation.
    pub(super) acknowledged: BTreeMap<u64, Vec<Step>>,
    /// Transitions that were never answered.
    pub(super) open: BTreeMap<u64, Vec<Step>>,
    /// Every read of it, and in which life.
    pub(super) snapshots: Vec<(usize, Snapshot)>,
    /// Every change of it that was published.
    pub(super) published: Vec<(usize, u64, TaskState)>,
    /// The lives in which a renewal was acknowledged.
    pub(super) renewed: Vec<usize>,
    pub(super) renewals_open: u64,
    /// Ended cancellation holds: the life, the lease's version, and whether that was acknowledged.
    pub(super) stopped: Vec<(usize, u64, bool)>,
    /// Which version was reported to a client, and in which life.
    pub(super) witnessed: Vec<(usize, u64)>,
}

impl TaskLog {
    /// The newest version reported to a client before this life.
    pub(super) fn floor(&self, life: usize) -> u64 {
        self.witnessed.iter().filter(|(seen, _)| *seen < life).map(|(_, version)| *version).max().unwrap_or(0)
    }
}

impl Gathered {
    pub(super) fn from(lives: &[Vec<Line>], findings: &mut Findings) -> Self {
        let mut gathered = Self::default();
        for (life, lines) in lives.iter().enumerate() {
            let mut open: HashMap<u64, &Request> = HashMap::new();
            for line in lines {
                match line {
                    Line::Request(call, request) => {
                        gathered.asked(request);
                        open.insert(*call, request);
                    }
                    Line::Answer(call, answer) => match open.remove(call) {
                        Some(request) => gathered.answered(life, request, answer, findings),
                        None => findings
                            .hold(false, "log", || format!("call {call} was answered without a request")),
                    },
                    Line::Saw(snapshot) => gathered.saw(life, snapshot),
                    Line::Published { moves, .. } => gathered.published(life, moves, findings),
                    Line::OldPlace { resync } => findings.hold(*resync, "G10", || {
                        format!("life {life}: the stream accepted a cursor of an earlier life")
                    }),
                    _ => {}
                }
            }
            open.into_values().for_each(|request| gathered.unanswered(life, request));
        }
        gathered
    }

    fn task(&mut self, id: u64) -> &mut TaskLog {
        self.tasks.entry(id).or_default()
    }

    fn asked(&mut self, request: &Request) {
        if let Request::Enqueue(members) = request {
            self.members.extend(members.iter().map(|member| (member.nonce, member.clone())));
        }
    }

    fn answered(&mut self, life: usize, request: &Request, answer: &Answer, findings: &mut Findings) {
        match (request, answer) {
            (Request::Enqueue(_), Answer::Enqueued(answers)) => {
                answers.iter().for_each(|(id, _)| self.task(*id).witnessed.push((life, 1)));
            }
            (Request::Lease(token), Answer::Leased(snapshots)) => {
                for snapshot in snapshots {
                    self.acknowledge(life, snapshot.id, snapshot.version, Step::Lease(*token));
                    self.saw(life, snapshot);
                }
            }
            (Request::Commit(moves), Answer::Committed(verdicts)) => {
                for ((id, expected, made), verdict) in moves.iter().zip(verdicts) {
                    if let Verdict::Applied(version) = verdict {
                        findings.hold(*version == expected + 1, "G2", || {
                            format!("{made:?} of task {id} was decided on {expected} and made {version}")
                        });
                    }
                    if matches!(verdict, Verdict::Applied(_) | Verdict::Already) {
                        self.acknowledge(life, *id, expected + 1, Step::Move(made.clone()));
                    }
                }
            }
            (Request::Renew(id, _), Answer::Renewed { extended: true }) => self.task(*id).renewed.push(life),
            (Request::Stopped(id, version), Answer::Done) => {
                self.task(*id).stopped.push((life, *version, true));
            }
            (_, Answer::Failed(error)) => {
                findings.hold(false, "G1", || format!("life {life}: {request:?} failed: {error}"));
            }
            _ => {}
        }
    }

    fn acknowledge(&mut self, life: usize, id: u64, version: u64, step: Step) {
        let log = self.task(id);
        log.witnessed.push((life, version));
        let steps = log.acknowledged.entry(version).or_default();
        if !steps.contains(&step) {
            steps.push(step);
        }
    }

    fn unanswered(&mut self, life: usize, request: &Request) {
        match request {
            Request::Lease(token) => {
                self.open_tokens.insert(*token);
            }
            Request::Commit(moves) => {
                for (id, expected, made) in moves {
                    let made: &Move = made;
                    let steps = self.task(*id).open.entry(expected + 1).or_default();
                    steps.push(Step::Move(made.clone()));
                }
            }
            Request::Renew(id, _) => self.task(*id).renewals_open += 1,
            Request::Stopped(id, version) => self.task(*id).stopped.push((life, *version, false)),
            Request::Enqueue(_) | Request::Put { .. } | Request::Delete { .. } | Request::Append { .. } => {}
        }
    }

    fn saw(&mut self, life: usize, snapshot: &Snapshot) {
        let log = self.task(snapshot.id);
        log.witnessed.push((life, snapshot.version));
        log.snapshots.push((life, snapshot.clone()));
    }

    /// In order per task, and without a gap (G10).
    fn published(&mut self, life: usize, moves: &[(u64, u64, TaskState)], findings: &mut Findings) {
        for (id, version, state) in moves {
            let log = self.task(*id);
            let last = log.published.last().filter(|(seen, _, _)| *seen == life);
            let follows = last.is_none_or(|(_, last, _)| last + 1 == *version);
            findings.hold(follows, "G10", || {
                format!("life {life}: version {version} of task {id} was published after {last:?}")
            });
            log.published.push((life, *version, *state));
            log.witnessed.push((life, *version));
        }
    }
}
