//! Draws a scenario from a seed.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::faults::Rates;
use crate::simulation::rng::Rng;
use crate::simulation::scenario::task::Traits;
use crate::simulation::scenario::{
    Action, LifeEnd, LifePlan, NAMESPACES, ProducerPlan, QUEUES, Scenario, TaskPlan, WorkerPlan,
};

/// Kinds of faults that a world has.
#[derive(Debug, Clone, Copy)]
struct FaultKinds {
    crashes: bool,
    stalls: bool,
    failing_calls: bool,
    skew: bool,
    operator: bool,
}

/// Size of a world.
#[derive(Debug)]
struct Size {
    faults_ms: RangeInclusive<u64>,
    tasks: RangeInclusive<u64>,
    actions: usize,
}

impl Scenario {
    /// Draws the world of a seed.
    pub fn draw(seed: u64) -> Self {
        Self::draw_sized(seed, Size { faults_ms: 15_000..=45_000, tasks: 15..=45, actions: 16 })
    }

    /// A short world for slow stores: a third of the tasks in a third of the time, with all kinds of faults.
    pub fn draw_short(seed: u64) -> Self {
        Self::draw_sized(seed, Size { faults_ms: 5_000..=15_000, tasks: 5..=15, actions: 5 })
    }

    fn draw_sized(seed: u64, size: Size) -> Self {
        let mut rng = Rng::new(seed);
        let kinds = FaultKinds {
            crashes: rng.chance(60),
            stalls: rng.chance(40),
            failing_calls: rng.chance(50),
            skew: rng.chance(40),
            operator: rng.chance(70),
        };
        let traits = Traits {
            serial_percent: rng.pick(&[0, 20, 60]),
            long_percent: rng.pick(&[10, 40]),
            trouble_percent: rng.pick(&[10, 40]),
            kills: rng.chance(25),
        };
        let lease_ttl = rng.span_ms(2_000..=8_000);
        let faults_end = rng.span_ms(size.faults_ms);
        let workers = rng.within(1..=4);
        let workers =
            (0..workers).map(|index| worker(index, kinds, lease_ttl, faults_end, &mut rng.fork())).collect();
        let tasks = usize::try_from(rng.within(size.tasks)).expect("a small number");
        let producers = producers(tasks, kinds, &traits, faults_end, &mut rng.fork());
        let actions = if kinds.operator {
            actions(size.actions, tasks, faults_end, &mut rng.fork())
        } else {
            Vec::new()
        };
        let zombie_percent = if kinds.failing_calls { rng.pick(&[0, 20, 60]) } else { 0 };
        let grace = rng.span_ms(0..=4_000);
        Self { seed, lease_ttl, grace, zombie_percent, faults_end, workers, producers, actions }
    }
}

/// The first worker serves everything and runs to the end, so that every task can finish.
fn worker(
    index: u64,
    kinds: FaultKinds,
    lease_ttl: Duration,
    faults_end: Duration,
    rng: &mut Rng,
) -> WorkerPlan {
    let one = rng.pick(&NAMESPACES);
    let namespaces = if index == 0 || rng.chance(60) { NAMESPACES.to_vec() } else { vec![one] };
    let skewed = kinds.skew && rng.chance(70);
    let (skew_us, drift_ppm) = (rng.within(0..=40_000_000), rng.within(0..=100_000));
    let skew_us = i64::try_from(skew_us).expect("a small number") - 20_000_000;
    let drift_ppm = i32::try_from(drift_ppm).expect("a small number") - 50_000;
    let mut lives = if kinds.crashes { short_lives(faults_end, rng) } else { Vec::new() };
    if index == 0 || lives.is_empty() || rng.chance(70) {
        lives.push(LifePlan { after: rng.span_ms(0..=5_000), end: LifeEnd::Never });
    }
    WorkerPlan {
        name: format!("w{index}"),
        namespaces,
        concurrency: rng.count(1..=4),
        skew_us: if skewed { skew_us } else { 0 },
        drift_ppm: if skewed { drift_ppm } else { 0 },
        rates: if kinds.failing_calls { rates(rng) } else { Rates::default() },
        stalls: if kinds.stalls { stalls(lease_ttl, faults_end, rng) } else { Vec::new() },
        lives,
    }
}

fn short_lives(faults_end: Duration, rng: &mut Rng) -> Vec<LifePlan> {
    let half_ms = u64::try_from(faults_end.as_millis()).expect("a short world") / 2;
    let mut life = || {
        let end = match rng.within(0..=9) {
            0..=2 => LifeEnd::CrashAfter(rng.span_ms(0..=half_ms)),
            3..=7 => {
                let method = rng.pick(&[
                    "lease",
                    "commit",
                    "commit_and_lease",
                    "commit_and_lease",
                    "renew",
                    "overdue",
                    "confirm_stopped",
                ]);
                LifeEnd::CrashAtCall { method, number: rng.within(1..=12), carried_out: rng.chance(60) }
            }
            _ => {
                LifeEnd::ShutdownAfter(rng.span_ms(0..=half_ms), rng.maybe(40, |rng| rng.span_ms(0..=2_000)))
            }
        };
        LifePlan { after: rng.span_ms(0..=6_000), end }
    };
    let first = life();
    let second = life();
    let count = rng.within(0..=2);
    [first, second].into_iter().take(usize::try_from(count).expect("a small number")).collect()
}

fn rates(rng: &mut Rng) -> Rates {
    let mut rate = || rng.pick(&[0, 2, 5, 12]);
    let (fail_before, fail_after, duplicate, delay) = (rate(), rate(), rate(), rate());
    let delay_max = rng.span_ms(1..=6_000);
    Rates { fail_before, fail_after, duplicate, stale_read: 0, delay, delay_max }
}

/// Longer than every timeout, or just about as long as a lease.
fn stalls(lease_ttl: Duration, faults_end: Duration, rng: &mut Rng) -> Vec<(Duration, Duration)> {
    let end_ms = u64::try_from(faults_end.as_millis()).expect("a short world");
    let count = rng.within(0..=2);
    let mut stall = || {
        let from = rng.span_ms(0..=end_ms);
        let length = if rng.chance(50) { lease_ttl * 4 } else { rng.span_ms(100..=9_000) };
        (from, (from + length).min(faults_end))
    };
    (0..count).map(|_| stall()).collect()
}

fn producers(
    tasks: usize,
    kinds: FaultKinds,
    traits: &Traits,
    faults_end: Duration,
    rng: &mut Rng,
) -> Vec<ProducerPlan> {
    let end_ms = u64::try_from(faults_end.as_millis()).expect("a short world");
    let count = usize::try_from(rng.within(1..=3)).expect("a small number");
    let producer = |rng: &mut Rng| {
        let rates = if kinds.failing_calls { rates(rng) } else { Rates::default() };
        ProducerPlan { rates, tasks: Vec::new() }
    };
    let mut producers: Vec<_> = (0..count).map(|_| producer(rng)).collect();
    for number in 0..tasks {
        // Half of them at once: a burst tests order, later tasks test wake-ups.
        let at = if rng.chance(50) { Duration::ZERO } else { rng.span_ms(0..=end_ms) };
        producers[number % count].tasks.push(TaskPlan::draw(number, at, traits, rng));
    }
    for producer in &mut producers {
        producer.tasks.sort_by_key(|task| (task.at, task.number));
    }
    producers
}

fn actions(count: usize, tasks: usize, faults_end: Duration, rng: &mut Rng) -> Vec<(Duration, Action)> {
    let end_ms = u64::try_from(faults_end.as_millis()).expect("a short world");
    let last = tasks as u64 - 1;
    let mut action = || {
        let at = rng.span_ms(0..=end_ms);
        let number = usize::try_from(rng.within(0..=last)).expect("an index");
        let action = match rng.within(0..=9) {
            0..=4 => Action::Cancel(number),
            5..=6 => Action::RunNow(number),
            _ => Action::Set {
                namespace: rng.pick(&NAMESPACES),
                queue: rng.pick(&QUEUES),
                paused: rng.chance(30),
                max_running: rng.maybe(60, |rng| rng.count(1..=2)),
            },
        };
        (at, action)
    };
    let mut actions: Vec<_> = (0..count).map(|_| action()).collect();
    actions.sort_by_key(|(at, _)| *at);
    actions
}
