//! What was said of each task, in one place.

use std::collections::{BTreeMap, HashMap, HashSet};

use weaver_core::id::LeaseToken;
use weaver_core::task::TaskState;

use super::Findings;
use super::model::Step;
use crate::wire::{Ask, Line, Member, Move, Sight, Told, Verdict};

/// Everything that was said, by task.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) tasks: BTreeMap<u64, Said>,
    /// Every task that anybody wanted to make, by nonce.
    pub(super) members: HashMap<u64, Member>,
    /// Lease calls that were never answered.
    pub(super) open_tokens: HashSet<LeaseToken>,
}

/// What was said of one task.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The moves that were acknowledged, by the version they made. More than one is a broken promise.
    pub(super) acknowledged: BTreeMap<u64, Vec<Step>>,
    /// Those that were never answered.
    pub(super) open: BTreeMap<u64, Vec<Step>>,
    /// Every look at it, and in which life.
    pub(super) sights: Vec<(usize, Sight)>,
    /// Every change of it that was published.
    pub(super) published: Vec<(usize, u64, TaskState)>,
    /// The lives in which a renewal was acknowledged.
    pub(super) renewed: Vec<usize>,
    pub(super) renewals_open: u64,
    /// Holds that were ended: the life, the lease's version, and whether that was acknowledged.
    pub(super) stopped: Vec<(usize, u64, bool)>,
    /// In which life somebody was told of which version.
    pub(super) witnessed: Vec<(usize, u64)>,
}

impl Said {
    /// The newest version that somebody was told of before this life.
    pub(super) fn floor(&self, life: usize) -> u64 {
        self.witnessed.iter().filter(|(told, _)| *told < life).map(|(_, version)| *version).max().unwrap_or(0)
    }
}

impl Gathered {
    pub(super) fn from(lives: &[Vec<Line>], findings: &mut Findings) -> Self {
        let mut gathered = Self::default();
        for (life, lines) in lives.iter().enumerate() {
            let mut open: HashMap<u64, &Ask> = HashMap::new();
            for line in lines {
                match line {
                    Line::Ask(call, ask) => {
                        gathered.asked(ask);
                        open.insert(*call, ask);
                    }
                    Line::Told(call, told) => match open.remove(call) {
                        Some(ask) => gathered.answered(life, ask, told, findings),
                        None => findings.hold(false, "log", || format!("call {call} was answered unasked")),
                    },
                    Line::Saw(sight) => gathered.saw(life, sight),
                    Line::Published { moves, .. } => gathered.published(life, moves, findings),
                    Line::OldPlace { resync } => findings.hold(*resync, "G10", || {
                        format!("life {life}: the stream went on from a place of an earlier life")
                    }),
                    _ => {}
                }
            }
            open.into_values().for_each(|ask| gathered.unanswered(life, ask));
        }
        gathered
    }

    fn task(&mut self, id: u64) -> &mut Said {
        self.tasks.entry(id).or_default()
    }

    fn asked(&mut self, ask: &Ask) {
        if let Ask::Enqueue(members) = ask {
            self.members.extend(members.iter().map(|member| (member.nonce, member.clone())));
        }
    }

    fn answered(&mut self, life: usize, ask: &Ask, told: &Told, findings: &mut Findings) {
        match (ask, told) {
            (Ask::Enqueue(_), Told::Enqueued(answers)) => {
                answers.iter().for_each(|(id, _)| self.task(*id).witnessed.push((life, 1)));
            }
            (Ask::Lease(token), Told::Leased(sights)) => {
                for sight in sights {
                    self.acknowledge(life, sight.id, sight.version, Step::Lease(*token));
                    self.saw(life, sight);
                }
            }
            (Ask::Commit(moves), Told::Committed(verdicts)) => {
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
            (Ask::Renew(id, _), Told::Renewed { extended: true }) => self.task(*id).renewed.push(life),
            (Ask::Stopped(id, version), Told::Done) => self.task(*id).stopped.push((life, *version, true)),
            (_, Told::Failed(error)) => {
                findings.hold(false, "G1", || format!("life {life}: {ask:?} failed: {error}"));
            }
            _ => {}
        }
    }

    fn acknowledge(&mut self, life: usize, id: u64, version: u64, step: Step) {
        let said = self.task(id);
        said.witnessed.push((life, version));
        let steps = said.acknowledged.entry(version).or_default();
        if !steps.contains(&step) {
            steps.push(step);
        }
    }

    fn unanswered(&mut self, life: usize, ask: &Ask) {
        match ask {
            Ask::Lease(token) => {
                self.open_tokens.insert(*token);
            }
            Ask::Commit(moves) => {
                for (id, expected, made) in moves {
                    let made: &Move = made;
                    let steps = self.task(*id).open.entry(expected + 1).or_default();
                    steps.push(Step::Move(made.clone()));
                }
            }
            Ask::Renew(id, _) => self.task(*id).renewals_open += 1,
            Ask::Stopped(id, version) => self.task(*id).stopped.push((life, *version, false)),
            Ask::Enqueue(_) | Ask::Put { .. } | Ask::Delete { .. } | Ask::Append { .. } => {}
        }
    }

    fn saw(&mut self, life: usize, sight: &Sight) {
        let said = self.task(sight.id);
        said.witnessed.push((life, sight.version));
        said.sights.push((life, sight.clone()));
    }

    /// In order per task, and without a gap (G10).
    fn published(&mut self, life: usize, moves: &[(u64, u64, TaskState)], findings: &mut Findings) {
        for (id, version, state) in moves {
            let said = self.task(*id);
            let last = said.published.last().filter(|(told, _, _)| *told == life);
            let follows = last.is_none_or(|(_, last, _)| last + 1 == *version);
            findings.hold(follows, "G10", || {
                format!("life {life}: version {version} of task {id} was published after {last:?}")
            });
            said.published.push((life, *version, *state));
            said.witnessed.push((life, *version));
        }
    }
}
