//! A running walk: executes each step on store and model.

use weaver_core::error::Error;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::{Epoch, TaskKey, Version};
use weaver_core::lease::{ContinuationChange, LeaseRequest, Leased, Renewal};
use weaver_core::lifecycle::{Command, Grant, OrphanCause, Transition, decide};
use weaver_core::ports::{DocumentKey, Expect, PurgeRule, QueueSettings};
use weaver_core::queue::{LeaderEpoch, Overdue};
use weaver_core::task::{NewTask, Progress};
use weaver_core::time::Timestamp;

use crate::harness::{Harness, namespace, seconds, worker};
use crate::model::compare::same;
use crate::model::reference::Reference;
use crate::model::step::{
    End, LeasePlan, Move, RenewPlan, Step, TaskPlan, Under, dispatch, from_newest, namespace_at, queue_at,
    span,
};

/// State of a running walk.
pub(super) struct Run {
    pub(super) harness: Harness,
    pub(super) model: Reference,
    /// Every task so far, including purged ones.
    pub(super) keys: Vec<TaskKey>,
    /// Cursor of the compared changes; `None` for a store that only answers `Resync`.
    pub(super) cursor: Option<ChangeCursor>,
    /// How many of the model's changes have been compared.
    pub(super) changes_seen: usize,
    requests: Vec<LeaseRequest>,
    leases: Vec<Leased>,
    decided: Vec<Transition>,
    epochs: Vec<Version>,
}

impl Run {
    pub(super) async fn begin(harness: Harness) -> Result<Self, String> {
        let cursor = match harness.store.changes(None, 1).await.map_err(failed)? {
            Changes::Next { next, items } => {
                same("changes before the first step", &items, &Vec::new())?;
                Some(next)
            }
            Changes::Resync { .. } => None,
        };
        Ok(Self {
            harness,
            cursor,
            model: Reference::default(),
            keys: Vec::new(),
            changes_seen: 0,
            requests: Vec::new(),
            leases: Vec::new(),
            decided: Vec::new(),
            epochs: Vec::new(),
        })
    }

    /// Runs a step on both sides and compares the answers.
    pub(super) async fn take(&mut self, step: &Step) -> Result<(), String> {
        let now = self.harness.now().await;
        match step {
            Step::Enqueue(plans) => self.enqueue(plans, now).await,
            Step::Lease(plan) => self.lease(self.request(plan), now).await,
            Step::LeaseAgain(which) => match from_newest(&self.requests, *which).cloned() {
                Some(request) => self.lease(request, now).await,
                None => Ok(()),
            },
            Step::Finish { ends, commit } => {
                let transitions = self.decide_ends(ends);
                self.decided(transitions, *commit, now).await
            }
            Step::Command { moves, commit } => {
                let transitions = self.decide_moves(moves, now);
                self.decided(transitions, *commit, now).await
            }
            Step::Commit(which, under) => {
                let again = which.iter().filter_map(|back| from_newest(&self.decided, *back).cloned());
                let again = again.collect();
                self.commit(again, *under, now).await
            }
            Step::Renew(renewals) => self.renew(renewals, now).await,
            Step::ConfirmStopped(which) => self.confirm_stopped(which).await,
            Step::SetQueue { namespace, queue, paused, max_running, assigns } => {
                let (paused, max_running, dispatch) = (*paused, *max_running, dispatch(*assigns));
                let settings = QueueSettings { paused, max_running, dispatch };
                self.set_queue(*namespace, *queue, settings).await
            }
            Step::Maintain { commit } => self.maintain(*commit, now).await,
            Step::Purge { namespace, finished_for_s } => self.purge(*namespace, *finished_for_s, now).await,
            Step::Elect => self.elect().await,
            Step::Advance { by_s } => {
                self.harness.advance(span(*by_s)).await;
                Ok(())
            }
        }
    }

    async fn enqueue(&mut self, plans: &[TaskPlan], now: Timestamp) -> Result<(), String> {
        let tasks: Vec<NewTask> = plans.iter().map(|plan| plan.task(now)).collect();
        let limits = self.harness.store.limits();
        let valid: Result<Vec<_>, _> = tasks.iter().cloned().map(|task| task.validate(&limits)).collect();
        let answers = self.harness.store.enqueue_batch(tasks).await.map_err(failed)?;
        let answers: Result<Vec<_>, _> = answers.into_iter().collect();
        let answers = answers.map_err(failed)?;
        self.model.enqueue(valid.map_err(|invalid| invalid.to_string())?, &answers, now)?;
        let new = answers.into_iter().filter(|answer| !answer.existing).map(|answer| answer.key);
        self.keys.extend(new);
        Ok(())
    }

    fn request(&self, plan: &LeasePlan) -> LeaseRequest {
        LeaseRequest {
            namespace: namespace_at(plan.namespace),
            queues: plan.queues(),
            types: plan.types(),
            worker: worker("puller"),
            token: self.harness.token(),
            max: plan.max,
            slots: plan.slots,
            ttl: span(plan.ttl_s),
            assign_fallback: plan.assign_fallback,
        }
    }

    async fn lease(&mut self, request: LeaseRequest, now: Timestamp) -> Result<(), String> {
        let mut theirs = self.harness.store.lease(request.clone()).await.map_err(failed)?;
        let ours = self.model.lease(&request, now);
        if ours.repeated {
            // A repeated call leaves out finished tasks, and may or may not show renewals.
            theirs.sort_by(|one, other| one.lease.key.cmp(&other.lease.key));
            let leases = |leased: &[Leased]| leased.iter().map(|each| each.lease.clone()).collect::<Vec<_>>();
            same("the repeated leases", &leases(&theirs), &leases(&ours.leased))?;
        } else {
            same("what is leased", &theirs, &ours.leased)?;
            self.leases.extend(theirs);
        }
        self.requests.push(request);
        Ok(())
    }

    /// Outcomes are decided on the record that was leased, which may be out of date.
    fn decide_ends(&self, ends: &[(u8, End)]) -> Vec<Transition> {
        let decide_end = |(back, end): &(u8, End)| {
            let leased = from_newest(&self.leases, *back)?;
            let command = Command::Finish { lease: leased.lease.clone(), outcome: end.outcome() };
            decide(&leased.record, command, leased.record.updated_at).ok()
        };
        ends.iter().filter_map(decide_end).collect()
    }

    fn decide_moves(&self, moves: &[(u8, Move)], now: Timestamp) -> Vec<Transition> {
        let decide_move = |(back, requested): &(u8, Move)| {
            let record = self.model.record(from_newest(&self.keys, *back)?)?;
            decide(record, self.command(*requested), now).ok()
        };
        moves.iter().filter_map(decide_move).collect()
    }

    fn command(&self, requested: Move) -> Command {
        let assigned_to = |number: u8| worker(["first", "second"][usize::from(number % 2)]);
        let grant = |worker| Grant { worker, token: self.harness.token(), ttl: seconds(20) };
        match requested {
            Move::Cancel => Command::Cancel,
            Move::Replace => Command::Replace,
            Move::RunNow => Command::RunNow,
            Move::Assign(number) => {
                let epoch = Epoch(self.epochs.last().map_or(0, |version| version.0));
                Command::Assign { worker: assigned_to(number), epoch }
            }
            Move::Start(number) => Command::Start(grant(assigned_to(number))),
            Move::Orphan(number) => {
                Command::Orphan(OrphanCause::ALL[usize::from(number) % OrphanCause::ALL.len()])
            }
            Move::ReleaseOrphan => Command::ReleaseOrphan,
            Move::AbandonOrphan => Command::AbandonOrphan,
            Move::Lease => Command::Lease(grant(worker("picker"))),
        }
    }

    async fn decided(
        &mut self,
        transitions: Vec<Transition>,
        commit: bool,
        now: Timestamp,
    ) -> Result<(), String> {
        self.decided.extend(transitions.iter().cloned());
        if commit { self.commit(transitions, Under::NoLeader, now).await } else { Ok(()) }
    }

    async fn commit(
        &mut self,
        transitions: Vec<Transition>,
        under: Under,
        now: Timestamp,
    ) -> Result<(), String> {
        let epoch = match under {
            Under::NoLeader => None,
            Under::Leader => self.epochs.last().copied(),
            Under::DeposedLeader => self.epochs.iter().rev().nth(1).copied(),
        };
        let leader = epoch.map(|epoch| LeaderEpoch { document: leader_document(), epoch });
        let theirs = self.harness.store.commit(transitions.clone(), leader).await;
        if let Some(epoch) = epoch.filter(|_| under == Under::DeposedLeader) {
            let current = self.epochs.last().copied().unwrap_or_default();
            return same("a deposed leader's commit", &theirs, &Err(Error::Deposed { epoch, current }));
        }
        let now_running = transitions.iter().map(|transition| transition.key.clone()).collect::<Vec<_>>();
        let ours: Vec<_> =
            transitions.into_iter().map(|transition| self.model.commit(transition, now)).collect();
        same("what became of the transitions", &theirs.map_err(failed)?, &ours)?;
        self.remember_leases(&now_running);
        Ok(())
    }

    /// Leases that were created by a commit are finished and renewed like others.
    fn remember_leases(&mut self, keys: &[TaskKey]) {
        for record in keys.iter().filter_map(|key| self.model.record(key)) {
            let Some(lease) = record.current_lease() else { continue };
            if !self.leases.iter().any(|known| known.lease == lease) {
                self.leases.push(Leased { lease, record: record.clone() });
            }
        }
    }

    async fn renew(&mut self, plans: &[(u8, RenewPlan)], now: Timestamp) -> Result<(), String> {
        let renewal = |(back, plan): &(u8, RenewPlan)| {
            let lease = from_newest(&self.leases, *back)?.lease.clone();
            Some(planned_renewal(Renewal::of(lease), *plan))
        };
        let renewals: Vec<_> = plans.iter().filter_map(renewal).collect();
        let theirs = self.harness.store.renew(renewals.clone()).await.map_err(failed)?;
        let ours: Vec<_> = renewals.into_iter().map(|renewal| self.model.renew(renewal, now)).collect();
        same("the renewals", &theirs, &ours)
    }

    async fn confirm_stopped(&mut self, which: &[u8]) -> Result<(), String> {
        let leases = which.iter().filter_map(|back| from_newest(&self.leases, *back));
        let leases: Vec<_> = leases.map(|leased| leased.lease.clone()).collect();
        leases.iter().for_each(|lease| self.model.confirm_stopped(lease));
        self.harness.store.confirm_stopped(leases).await.map_err(failed)
    }

    async fn set_queue(&mut self, namespace: u8, queue: u8, settings: QueueSettings) -> Result<(), String> {
        let (namespace, queue) = (namespace_at(namespace), queue_at(queue));
        self.harness.store.put_queue(&namespace, &queue, settings, Expect::Anything).await.map_err(failed)?;
        self.model.put_queue(namespace, queue, settings);
        Ok(())
    }

    async fn maintain(&mut self, commit: bool, now: Timestamp) -> Result<(), String> {
        let mut theirs = self.harness.store.overdue(1000).await.map_err(failed)?;
        theirs.sort_by(|one, other| one.record.key.cmp(&other.record.key));
        same("what is overdue", &theirs, &self.model.overdue(now))?;
        let decide_end = |item: &Overdue| decide(&item.record, Command::Expire(item.reason), now).ok();
        let transitions = theirs.iter().filter_map(decide_end).collect();
        if commit {
            let holds: Vec<_> = theirs.iter().filter_map(|item| item.record.hold()).collect();
            holds.iter().for_each(|lease| self.model.confirm_stopped(lease));
            self.harness.store.confirm_stopped(holds).await.map_err(failed)?;
        }
        self.decided(transitions, commit, now).await
    }

    async fn purge(&mut self, number: u8, finished_for_s: u8, now: Timestamp) -> Result<(), String> {
        let namespace = Some(namespace_at(number));
        let rule = PurgeRule { namespace, queue: None, state: None, finished_for: span(finished_for_s) };
        let theirs = self.harness.store.purge_tasks(rule.clone(), 1000).await.map_err(failed)?;
        same("how many are purged", &(theirs.count as usize), &self.model.purge(&rule, now))
    }

    async fn elect(&mut self) -> Result<(), String> {
        let body = bytes::Bytes::from_static(b"leader");
        let answer = self.harness.store.put_document(&leader_document(), body, Expect::Anything, None).await;
        self.epochs.push(answer.map_err(failed)?);
        same("epochs in order", &self.epochs.is_sorted_by(|one, next| one < next), &true)
    }
}

fn planned_renewal(renewal: Renewal, plan: RenewPlan) -> Renewal {
    match plan {
        RenewPlan::Plain => renewal,
        RenewPlan::Progress(percent) => {
            let progress = Progress { fraction: f32::from(percent) / 100.0, message: format!("{percent} %") };
            Renewal { progress: Some(progress), ..renewal }
        }
        RenewPlan::Confirming(within_s) => {
            let continuation = Some(ContinuationChange::Confirming { within: span(within_s) });
            Renewal { continuation, ..renewal }
        }
        RenewPlan::Continue => Renewal { continuation: Some(ContinuationChange::Continue), ..renewal },
    }
}

fn leader_document() -> DocumentKey {
    DocumentKey::new(namespace("leaders"), "leader", "scheduler")
}

#[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`, which gives it away")]
pub(super) fn failed(error: Error) -> String {
    format!("the store answers: {error}")
}
