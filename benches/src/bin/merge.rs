//! Planning a merge queue with 1,000 entries: `cargo xtask bench merge`.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use weaver_benches::Samples;
use weaver_core::time::Timestamp;
use weaver_merge::domain::{
    CheckName, ENTRIES_MAX, MergeQueue, Merged, Oid, OnForeign, OnPush, PullRequest, PullRequestState,
    Repository,
};
use weaver_merge::plan::{
    Action, BaseSeen, CheckSet, Observations, Policy, PullRequestSeen, Report, apply, plan,
};

/// Plans of each kind.
const PLANS: usize = 2_000;
const LIMIT: Duration = Duration::from_millis(10);

fn main() {
    println!("{ENTRIES_MAX} entries, each with the current head of its branch; {PLANS} of each, in turn");
    let (mut queue, seen) = full_queue();
    report("the head waits: a candidate is asked for", &queue, &seen);
    settle(&mut queue, &seen);
    report("the head is checked: its runs are asked for", &queue, &seen);
    let mut moved = seen.clone();
    moved.pull_requests.values_mut().for_each(|change| *change = PullRequestSeen::BranchDeleted);
    report("every branch was deleted: every entry is removed", &queue, &moved);
}

fn report(what: &str, queue: &MergeQueue, seen: &Observations) {
    let (policy, now) = (Policy::default(), Timestamp::from_micros(1_767_225_600_000_000));
    let mut measurements: [Vec<f64>; 3] = Default::default();
    for _ in 0..PLANS {
        measurements[0].push(timed(|| drop(black_box(plan(black_box(queue), seen, &policy, now)))));
        // The lower bound of a plan: a copy of the queue.
        measurements[1].push(timed(|| drop(black_box(black_box(queue).clone()))));
        // Afterwards it is encoded.
        measurements[2].push(timed(|| drop(black_box(serde_json::to_vec(black_box(queue))))));
    }
    let [plan, copy, document] = measurements.map(Samples::of);
    println!("{what}");
    for (name, samples) in [("plan", &plan), ("bare copy of the queue", &copy), ("its document", &document)] {
        let (p50, p99) = (samples.quantile(0.5) * 1e6, samples.quantile(0.99) * 1e6);
        println!("{name:>24}: p50 {p50:7.0} µs, p99 {p99:7.0} µs");
    }
    let ratio = |part| plan.quantile(part) / copy.quantile(part);
    let of_document = plan.quantile(0.5) / document.quantile(0.5);
    println!(
        "     plan / copy: {:.1} × / {:.1} ×, plan / document: {of_document:.2} ×",
        ratio(0.5),
        ratio(0.99)
    );
    assert!(plan.quantile(0.5) < LIMIT.as_secs_f64(), "the limit is {LIMIT:?}");
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn oid(number: usize) -> Oid {
    format!("{number:040x}").parse().expect("forty digits")
}

fn full_queue() -> (MergeQueue, Observations) {
    let repository = Repository { name: "demo".into(), location: "/srv/git/demo.git".into() };
    let mut queue = MergeQueue::new(repository, "main", Timestamp::MIN);
    let mut pull_requests = HashMap::new();
    for number in 0..ENTRIES_MAX {
        let name = format!("feature/a-branch-{number}");
        let change = PullRequestState {
            pull_request: PullRequest { id: name.clone(), head_ref: name, head: oid(number) },
            base_branch: "main".into(),
            is_open: true,
            is_draft: false,
            conflict: None,
            has_trigger: true,
        };
        let entry = queue.enqueue(&change, 5, Timestamp::MIN).expect("there is room");
        pull_requests.insert(entry, PullRequestSeen::Present(change));
    }
    queue.outbox.clear();
    let names = ["build", "lint", "unit", "docs"].map(|name| CheckName(name.into())).into();
    let checks = CheckSet { id: "set".into(), names, on_push: OnPush::default() };
    let seen = Observations {
        base: BaseSeen::Tip { oid: oid(1 << 20), checks: Ok(checks) },
        pull_requests,
        base_has_candidate: false,
        runs: HashMap::new(),
        is_active: true,
        slots: 4,
        foreign: None,
        on_foreign: OnForeign::Pause,
    };
    (queue, seen)
}

/// Builds the candidate of the head.
fn settle(queue: &mut MergeQueue, seen: &Observations) {
    let (policy, now) = (Policy::default(), Timestamp::MIN);
    let planned = plan(queue, seen, &policy, now).expect("it is valid");
    *queue = planned.queue;
    let BaseSeen::Tip { checks: Ok(checks), .. } = &seen.base else { return };
    for action in planned.actions {
        if let Action::Build { entry, base, head } = action {
            let merged = Merged { tree: oid(1 << 21), commit: oid(1 << 22) };
            let report = Report::Built { entry, base, head, merged, checks: checks.names.clone() };
            apply(queue, report, &policy, now).expect("it is valid");
        }
    }
}
