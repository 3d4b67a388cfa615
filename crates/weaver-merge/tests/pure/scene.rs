//! A queue, what is seen of the world, and the steps between them.

use std::collections::HashMap;
use std::time::Duration;

use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;
use weaver_merge::domain::{
    CheckName, EntryId, MergeQueue, Merged, Oid, OnForeign, OnPush, PullRequest, PullRequestState,
    Repository, RunOutcome, Status,
};
use weaver_merge::plan::{
    Action, BaseSeen, CheckSet, Observations, Plan, Policy, PullRequestSeen, Report, RunSeen, apply, plan,
};

pub(crate) fn oid(number: u64) -> Oid {
    format!("{number:040x}").parse().unwrap()
}

pub(crate) fn change(id: &str, head: u64) -> PullRequestState {
    PullRequestState {
        pull_request: PullRequest { id: id.into(), head_ref: id.into(), head: oid(head) },
        base_branch: "main".into(),
        is_open: true,
        is_draft: false,
        conflict: None,
        has_trigger: true,
    }
}

pub(crate) fn queue() -> MergeQueue {
    let repository = Repository { name: "demo".into(), location: "demo.git".into() };
    MergeQueue::new(repository, "main", Timestamp::MIN)
}

/// A queue with changes `a`, `b`, … whose heads are 1, 2, …; the base is at 100.
pub(crate) struct Scene {
    pub(crate) queue: MergeQueue,
    pub(crate) seen: Observations,
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
    /// Every report so far.
    pub(crate) reports: Vec<Report>,
}

impl Scene {
    pub(crate) fn new(changes: &[&str], checks: &[&str]) -> Self {
        let names = checks.iter().map(|name| CheckName((*name).into())).collect();
        let checks = Ok(CheckSet { id: "set".into(), names, on_push: OnPush::default() });
        let seen = Observations {
            base: BaseSeen::Tip { oid: oid(100), checks },
            pull_requests: HashMap::new(),
            base_has_candidate: false,
            foreign: None,
            on_foreign: OnForeign::Pause,
            runs: HashMap::new(),
            is_active: true,
            slots: 10,
        };
        let (policy, now) = (Policy::default(), Timestamp::MIN);
        let mut scene = Self { queue: queue(), seen, policy, now, reports: Vec::new() };
        for (head, id) in (1..).zip(changes) {
            let entry = scene.queue.enqueue(&change(id, head), 5, scene.now).unwrap();
            scene.seen.pull_requests.insert(entry, PullRequestSeen::Present(change(id, head)));
        }
        scene.queue.outbox.clear();
        scene
    }

    /// Plans, keeps the queue to be saved, and returns the actions.
    pub(crate) fn plan(&mut self) -> Vec<Action> {
        let Plan { queue, actions, .. } = plan(&self.queue, &self.seen, &self.policy, self.now).unwrap();
        queue.validate_after(&self.queue).unwrap();
        self.queue = queue;
        actions
    }

    pub(crate) fn report(&mut self, report: Report) -> bool {
        let before = self.queue.clone();
        self.reports.push(report.clone());
        let changed = apply(&mut self.queue, report, &self.policy, self.now).unwrap();
        self.queue.validate_after(&before).unwrap();
        changed
    }

    /// Performs actions without faults; runs become tasks 1000 and up.
    pub(crate) fn act(&mut self, actions: &[Action]) {
        for action in actions {
            match action.clone() {
                Action::Build { entry, base, head } => {
                    let BaseSeen::Tip { checks: Ok(checks), .. } = &self.seen.base else { panic!() };
                    let (merged, checks) = (merged(&base, &head), checks.names.clone());
                    self.report(Report::Built { entry, base, head, merged, checks });
                }
                Action::StartCheck { entry, candidate, check, number, .. } => {
                    let task = TaskId(1000 + self.seen.runs.len() as u64);
                    self.seen.runs.insert(task, RunSeen::Active { last_seen_at: self.now });
                    self.report(Report::Started { entry, candidate, check, number, task });
                }
                Action::Land { entry, commit, base } => {
                    assert_eq!(self.base(), base, "it lands on its tested parent");
                    self.set_base(&commit);
                    self.report(Report::Landed { entry, commit });
                }
                Action::StopCheck { task } => {
                    self.seen.runs.insert(task, ended(None));
                }
            }
        }
    }

    pub(crate) fn step(&mut self) -> Vec<Action> {
        let actions = self.plan();
        self.act(&actions);
        actions
    }

    /// Ends every active run with the outcome that the function returns.
    pub(crate) fn end_runs(
        &mut self,
        outcome: impl Fn(&str, weaver_merge::domain::CheckTarget) -> RunOutcome,
    ) {
        let entry = self.queue.current_entry().unwrap();
        for check in &entry.checks {
            for run in check.open_runs() {
                self.seen.runs.insert(run.task.unwrap(), RunSeen::Ended(outcome(&check.name.0, run.on)));
            }
        }
    }

    pub(crate) fn status(&self) -> Option<Status> {
        self.queue.current_entry().map(|entry| entry.status)
    }

    pub(crate) fn first(&self) -> EntryId {
        self.queue.current_entry().unwrap().id
    }

    pub(crate) fn base(&self) -> Oid {
        match &self.seen.base {
            BaseSeen::Tip { oid, .. } => oid.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn set_base(&mut self, tip: &Oid) {
        if let BaseSeen::Tip { oid, .. } = &mut self.seen.base {
            *oid = tip.clone();
        }
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now = self.now.saturating_add(Duration::from_secs(seconds));
    }
}

/// Objects that depend on the base and the head and nothing else.
pub(crate) fn merged(base: &Oid, head: &Oid) -> Merged {
    let number = |oid: &Oid| u64::from_str_radix(&oid.as_str()[24..], 16).unwrap();
    let both = number(base).wrapping_mul(1_000_003).wrapping_add(number(head));
    Merged { tree: oid(both | 1 << 62), commit: oid(both | 1 << 63) }
}

pub(crate) fn ended(outcome: Option<RunOutcome>) -> RunSeen {
    RunSeen::Ended(outcome.unwrap_or(RunOutcome::Lost { reason: "stopped".into() }))
}

pub(crate) fn passed() -> RunOutcome {
    RunOutcome::Passed { log_hash: "hash".into() }
}

pub(crate) fn failed() -> RunOutcome {
    RunOutcome::Failed { summary: "exited with code 1".into(), log_hash: "hash".into() }
}
