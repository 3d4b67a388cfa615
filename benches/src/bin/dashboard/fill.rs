//! A million tasks of many types: most are finished, one in a hundred dead, and some still wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::ports::StreamKey;
use weaver_core::prelude::*;
use weaver_core::task::ContentType;

pub const TASKS: usize = 1_000_000;
/// Tasks that stay waiting, of all.
const WAITING: usize = 50_000;
const BATCH: usize = 1_000;
pub const QUEUES: usize = 20;
/// Workers that report their statistics each minute of an hour.
const WORKERS: usize = 4;

pub async fn fill(store: &dyn Store) {
    for turn in 0..TASKS / BATCH {
        let tasks = (0..BATCH).map(|at| task(turn * BATCH + at)).collect();
        for made in store.enqueue_batch(tasks).await.expect("the store answers") {
            made.expect("a valid task");
        }
        if turn < (TASKS - WAITING) / BATCH {
            run(store).await;
        }
        // As a server does regularly; stores clean up with it.
        store.overdue(1).await.expect("the store answers");
        eprint!("\r  {} of {TASKS}", (turn + 1) * BATCH);
    }
    eprint!("\r                    \r");
    statistics(store).await;
}

fn task(number: usize) -> NewTask {
    let text = format!("{{\"number\": {number}, \"text\": \"{}\"}}", "x".repeat(70));
    let task = NewTask::new(format!("type-{}", number % 17))
        .queue(format!("queue-{}", number % QUEUES))
        .payload(text, ContentType::JSON);
    let task = if number.is_multiple_of(5) {
        task.task_group_id(format!("group-{}", number % 1000))
            .session_id(format!("session-{}", number % 1000))
    } else {
        task
    };
    let task =
        if number.is_multiple_of(10) { task.label("team", format!("t{}", number % 1000)) } else { task };
    if number.is_multiple_of(997) { task.delay(Duration::from_secs(86_400)) } else { task }
}

/// Runs all due tasks.
async fn run(store: &dyn Store) {
    static TOKENS: AtomicU64 = AtomicU64::new(1);
    loop {
        let token = LeaseToken(TOKENS.fetch_add(1, Ordering::Relaxed).into());
        let worker = WorkerId::new("bench").expect("a name");
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        let queues = (0..QUEUES).map(|number| QueueName::new(format!("queue-{number}")).expect("a name"));
        let request =
            LeaseRequest { max: BATCH as u32, slots: BATCH as u32, queues: queues.collect(), ..request };
        let leased = store.lease(request).await.expect("the store answers");
        if leased.is_empty() {
            return;
        }
        store.commit(leased.iter().map(end).collect(), None).await.expect("the store answers");
    }
}

fn end(leased: &Leased) -> Transition {
    let number: u64 = leased.record.key.id.to_string().parse().unwrap_or(0);
    let outcome =
        if number.is_multiple_of(100) { Outcome::fatal("550 no such recipient") } else { Outcome::DONE };
    let command = Command::Finish { lease: leased.lease.clone(), outcome };
    decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease")
}

/// Statistics that the workers of the last hour would have written.
async fn statistics(store: &dyn Store) {
    let stream = StreamKey::new(Namespace::default(), "stats");
    for minute in 0..60 * WORKERS {
        let mut queues = serde_json::Map::new();
        for number in 0..QUEUES {
            let waits: Vec<usize> = (0..31).map(|bucket| (minute + bucket * number) % 7).collect();
            let queue = serde_json::json!({"succeeded": 40 + minute % 9, "failed": number % 3, "wait_ms_log2": waits});
            queues.insert(format!("queue-{number}"), queue);
        }
        let entry = serde_json::json!({"worker": "w", "span_ms": 60_000, "queues": queues});
        store.append_entries(&stream, &[entry.to_string().into()]).await.expect("the store answers");
    }
}
