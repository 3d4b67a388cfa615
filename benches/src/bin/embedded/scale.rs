//! Five million tasks: waiting, within 2 GiB; and finished, with the first page of every query under 20 ms.

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Runtime;
use weaver_benches::scratch::Scratch;
use weaver_benches::{Samples, per_second, resident_bytes};
use weaver_core::name::{SessionId, TaskGroupId};
use weaver_core::ports::{Selector, TaskFilter, TaskQuery, Tasks};
use weaver_core::prelude::*;
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};
use weaver_runtime::SystemClock;

use crate::weaver;

const TASKS: usize = 5_000_000;
const BATCH: usize = 10_000;
const LIMIT_BYTES: u64 = 2 << 30;
const LIMIT_MS: f64 = 20.0;

pub fn run(runtime: &Runtime) -> bool {
    println!("{TASKS} tasks of {} bytes each", weaver::PAYLOAD_BYTES);
    let scratch = Scratch::new("scale");
    let mut ok = fill(runtime, &scratch);
    ok &= reopen_and_run(runtime, &scratch);
    ok && look_up(runtime, &scratch)
}

fn open(scratch: &Scratch) -> Arc<EmbeddedStore> {
    let options = EmbeddedOptions::default();
    let clock = Arc::new(SystemClock::default());
    let store = EmbeddedStore::open_with(scratch.path(), clock, options, Arc::new(|_| {}));
    Arc::new(store.expect("the store opens"))
}

fn fill(runtime: &Runtime, scratch: &Scratch) -> bool {
    let store = open(scratch);
    let begun = Instant::now();
    for turn in 0..TASKS / BATCH {
        let tasks = (0..BATCH).map(|at| {
            let number = turn * BATCH + at;
            let group = format!("group-{}", number / 100);
            let task = weaver::task().task_group_id(group).session_id(format!("s-{}", number / 1_000));
            // One in a million matches the later queries.
            if number % 1_000_000 == 7 { task.label("rare", "yes").queue("rare") } else { task }
        });
        runtime.block_on(store.enqueue_batch(tasks.collect())).expect("valid");
        eprint!("\r  {} of {TASKS} enqueued", (turn + 1) * BATCH);
    }
    let elapsed = begun.elapsed();
    let resident = resident_bytes();
    let size = store.file_bytes().expect("a size");
    eprint!("\r                                        \r");
    println!(
        "       enqueued in batches of {BATCH}: {:.0} tasks/s; {} MiB resident, {} MiB on disk",
        per_second(TASKS as u64, elapsed),
        resident >> 20,
        size >> 20
    );
    within("resident with all of them waiting", resident, LIMIT_BYTES)
}

fn reopen_and_run(runtime: &Runtime, scratch: &Scratch) -> bool {
    let begun = Instant::now();
    let store = open(scratch);
    println!("       opened again, every page checked: {:.1} s", begun.elapsed().as_secs_f64());
    let ok = within("resident after opening", resident_bytes(), LIMIT_BYTES);
    let begun = Instant::now();
    let mut done = 0;
    for queue in ["default", "rare"] {
        let queue = QueueName::new(queue).expect("a name");
        loop {
            let request = LeaseRequest { queues: vec![queue.clone()], ..weaver::request(1000) };
            let leased = runtime.block_on(store.lease(request)).expect("the store answers");
            if leased.is_empty() {
                break;
            }
            runtime.block_on(weaver::end(&store, &leased));
            done += leased.len();
            eprint!("\r  {done} of {TASKS} run");
        }
    }
    eprint!("\r                                        \r");
    assert_eq!(done, TASKS);
    println!(
        "       run in batches of 1,000, one client: {:.0} tasks/s; {} MiB resident, {} MiB on disk",
        per_second(TASKS as u64, begun.elapsed()),
        resident_bytes() >> 20,
        store.file_bytes().expect("a size") >> 20
    );
    ok
}

fn look_up(runtime: &Runtime, scratch: &Scratch) -> bool {
    let begun = Instant::now();
    let store = open(scratch);
    println!("       opened with all of them finished: {:.1} s", begun.elapsed().as_secs_f64());
    let namespace = Namespace::default();
    let name = |text: &str| text.to_owned();
    let oldest = runtime.block_on(store.list_tasks(TaskQuery {
        order: weaver_core::ports::Order::OldestFirst,
        limit: 1,
        ..TaskQuery::new(namespace.clone())
    }));
    let oldest = oldest.expect("listed").items[0].created_at;
    let early = TaskFilter {
        created_before: Some(oldest.saturating_add(std::time::Duration::from_millis(500))),
        ..TaskFilter::default()
    };
    let selectors = [
        ("all", Selector::All, TaskFilter::default()),
        ("time (an early half second)", Selector::All, early),
        ("state", Selector::State(TaskState::Succeeded), TaskFilter::default()),
        ("a live state without tasks", Selector::State(TaskState::Running), TaskFilter::default()),
        ("type", Selector::Type(TaskType::new("bench").expect("a name")), TaskFilter::default()),
        (
            "queue (five tasks)",
            Selector::Queue(QueueName::new("rare").expect("a name")),
            TaskFilter::default(),
        ),
        ("group", Selector::Group(TaskGroupId::new("group-77").expect("a name")), TaskFilter::default()),
        ("session", Selector::Session(SessionId::new("s-77").expect("a name")), TaskFilter::default()),
        ("label (five tasks)", Selector::Label(name("rare"), name("yes")), TaskFilter::default()),
    ];
    let mut ok = true;
    for (what, selector, filter) in selectors {
        let mut times = Samples::default();
        for _ in 0..weaver_benches::ROUNDS {
            let query = TaskQuery {
                selector: selector.clone(),
                filter: filter.clone(),
                ..TaskQuery::new(namespace.clone())
            };
            let begun = Instant::now();
            let page = runtime.block_on(store.list_tasks(query)).expect("listed");
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            assert!(page.complete);
        }
        let holds = times.quantile(1.0) <= LIMIT_MS;
        ok &= holds;
        println!(
            "  {} first page by {what}: {:.2} ms, the slowest {:.2} ms (limit {LIMIT_MS} ms)",
            if holds { "ok  " } else { "MISS" },
            times.median(),
            times.quantile(1.0)
        );
    }
    ok
}

fn within(what: &str, bytes: u64, limit: u64) -> bool {
    let holds = bytes <= limit;
    println!(
        "  {} {what}: {} MiB (limit {} MiB)",
        if holds { "ok  " } else { "MISS" },
        bytes >> 20,
        limit >> 20
    );
    holds
}
