//! Random orders of events: the invariants hold, and only tested candidates land.

use proptest::prelude::*;
use weaver_core::time::Timestamp;
use weaver_merge::domain::{CheckTarget, EntryId, EntryOutcome, MergeQueue, Notice, RunOutcome};
use weaver_merge::plan::{Action, PullRequestSeen, Report, RunSeen};

use crate::scene::{Scene, change, failed, oid, passed, queue};

#[derive(Debug, Clone)]
enum Step {
    Enqueue(u8, u8),
    Remove(u8),
    Priority(u8, u8),
    Dequeue,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12u8, 0..10u8).prop_map(|(id, priority)| Step::Enqueue(id, priority)),
        1 => (0..30u8).prop_map(Step::Remove),
        2 => (0..30u8, 0..10u8).prop_map(|(id, priority)| Step::Priority(id, priority)),
        1 => Just(Step::Dequeue),
    ]
}

fn do_step(queue: &mut MergeQueue, step: &Step) {
    // What is refused changes nothing, which the caller checks as well as what is done.
    match *step {
        Step::Enqueue(id, priority) => {
            let _ = queue.enqueue(&change(&id.to_string(), 1), priority, Timestamp::MIN);
        }
        Step::Remove(id) => drop(queue.remove(EntryId(id.into()))),
        Step::Priority(id, priority) => drop(queue.set_priority(EntryId(id.into()), priority)),
        Step::Dequeue => drop(queue.dequeue()),
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Plan,
    /// Does what the last plan asked for; the bits say which reports arrive.
    Act(u8),
    /// Does what the plan before the last one asked for: late.
    ActLate,
    /// A report arrives again, or for the first time after it was lost, whenever it was made.
    Repeat(u8),
    EndRuns(u8),
    MoveBase,
    PushHead(u8),
    DeleteBranch(u8),
    Cancel(u8),
    Fault,
    Resume,
    Pass(u16),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Plan),
        8 => any::<u8>().prop_map(Event::Act),
        1 => Just(Event::ActLate),
        4 => any::<u8>().prop_map(Event::Repeat),
        6 => any::<u8>().prop_map(Event::EndRuns),
        1 => Just(Event::MoveBase),
        1 => (0..9u8).prop_map(Event::PushHead),
        1 => (0..9u8).prop_map(Event::DeleteBranch),
        1 => (0..9u8).prop_map(Event::Cancel),
        1 => Just(Event::Fault),
        2 => Just(Event::Resume),
        2 => any::<u16>().prop_map(Event::Pass),
    ]
}

/// A world around a scene: which commits the base has had, and which trees passed.
struct World {
    scene: Scene,
    last: Vec<Action>,
    late: Vec<Action>,
    history: Vec<weaver_merge::domain::Oid>,
    landed: Vec<EntryId>,
}

impl World {
    fn new() -> Self {
        let scene = Scene::new(&["a", "b", "c", "d", "e"], &["unit", "lint"]);
        Self { history: vec![scene.base()], scene, landed: Vec::new(), last: Vec::new(), late: Vec::new() }
    }

    fn observe(&mut self) {
        let merged = self.scene.queue.current_entry().and_then(|entry| entry.merged());
        self.scene.seen.base_has_candidate =
            merged.is_some_and(|merged| self.history.contains(&merged.commit));
    }

    fn happen(&mut self, event: Event) {
        self.observe();
        let scene = &mut self.scene;
        let nth = |queue: &MergeQueue, index: u8| queue.entries.get(usize::from(index)).map(|entry| entry.id);
        match event {
            Event::Plan => self.late = std::mem::replace(&mut self.last, scene.plan()),
            Event::Act(reported) => self.act(&self.last.clone(), reported),
            Event::ActLate => self.act(&self.late.clone(), u8::MAX),
            Event::Repeat(index) => {
                if let Some(count) = scene.reports.len().checked_sub(1) {
                    let report = scene.reports[usize::from(index).min(count)].clone();
                    scene.report(report);
                }
            }
            Event::EndRuns(bits) => {
                let tasks: Vec<_> = scene.seen.runs.keys().copied().collect();
                for (index, task) in tasks.into_iter().enumerate() {
                    let end = match (bits >> (index % 7)) & 3 {
                        0 => failed(),
                        1 | 2 => passed(),
                        _ => RunOutcome::Lost { reason: "lost".into() },
                    };
                    scene.seen.runs.insert(task, RunSeen::Ended(end));
                }
            }
            Event::MoveBase => {
                let tip = oid(10_000 + self.history.len() as u64);
                scene.set_base(&tip);
                self.history.push(tip);
            }
            Event::PushHead(index) => {
                if let Some(id) = nth(&scene.queue, index) {
                    let name = scene.queue.entry(id).unwrap().pull_request.id.clone();
                    let head = 500 + u64::from(index);
                    scene.seen.pull_requests.insert(id, PullRequestSeen::Present(change(&name, head)));
                }
            }
            Event::DeleteBranch(index) => {
                if let Some(id) = nth(&scene.queue, index) {
                    scene.seen.pull_requests.insert(id, PullRequestSeen::BranchDeleted);
                }
            }
            Event::Cancel(index) => {
                if let Some(id) = nth(&scene.queue, index) {
                    let _ = scene.queue.cancel(id, scene.now); // Refused while it is landing.
                }
            }
            Event::Fault => {
                if let Some(id) = nth(&scene.queue, 0) {
                    scene.report(Report::Fault { entry: id, message: "fault".into() });
                }
            }
            Event::Resume => scene.queue.resume(),
            Event::Pass(seconds) => scene.pass(seconds.into()),
        }
    }

    /// The base is the only thing with a truth of its own: it moves from the expected parent or not at all.
    fn act(&mut self, actions: &[Action], reported: u8) {
        for (index, action) in actions.iter().enumerate() {
            let is_reported = (reported >> (index % 8)) & 1 == 1;
            match action {
                Action::Land { base, .. } if *base != self.scene.base() => {}
                Action::Land { entry, commit, .. } => {
                    assert!(!self.landed.contains(entry), "it landed twice");
                    self.landed.push(*entry);
                    self.scene.set_base(commit);
                    self.history.push(commit.clone());
                    let report = Report::Landed { entry: *entry, commit: commit.clone() };
                    if is_reported {
                        self.scene.report(report);
                    } else {
                        self.scene.reports.push(report);
                    }
                }
                _ if !is_reported => {}
                other => self.scene.act(std::slice::from_ref(other)),
            }
        }
    }

    fn check(&self) {
        let queue = &self.scene.queue;
        queue.validate().unwrap();
        let mut landed = Vec::new();
        for notice in &queue.outbox {
            if let Notice::Completed { entry, outcome, .. } = notice {
                assert!(queue.entry(entry.id).is_err(), "a completed entry is still queued");
                let has_landed = self.landed.contains(&entry.id);
                assert_eq!(*outcome == EntryOutcome::Landed, has_landed, "the notice matches what happened");
                if has_landed {
                    let merged = entry.merged().unwrap();
                    assert!(self.history.contains(&merged.commit));
                    let passed = |check: &weaver_merge::domain::Check| {
                        let on_candidate = check.runs.iter().filter(|run| run.on == CheckTarget::Candidate);
                        check.is_reused
                            || on_candidate
                                .into_iter()
                                .any(|run| matches!(run.outcome, Some(RunOutcome::Passed { .. })))
                    };
                    assert!(entry.checks.len() == 2 && entry.checks.iter().all(passed));
                    landed.push(entry.id);
                }
            }
        }
        let count = landed.len();
        landed.dedup();
        assert_eq!(landed.len(), count, "one notice per landing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_command_order_preserves_the_invariants_of_a_queue(steps in prop::collection::vec(step(), 1..60)) {
        let mut queue = queue();
        for step in steps {
            let before = queue.clone();
            do_step(&mut queue, &step);
            prop_assert_eq!(queue.validate_after(&before), Ok(()));
            let priorities: Vec<u8> = queue.entries.iter().map(|entry| entry.priority).collect();
            prop_assert!(priorities.is_sorted(), "{:?}", priorities);
        }
    }

    #[test]
    fn any_event_order_lands_only_tested_candidates_each_at_most_once(
        events in prop::collection::vec(event(), 1..120)
    ) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
            world.check();
        }
    }
}
