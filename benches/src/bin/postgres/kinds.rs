//! Lifecycles of tasks that do not share a lease row: one in a call, with serial keys, of a limited queue,
//! and retried. Reported as figures: the peers have no such tasks, and an earlier layout is compared by
//! running its own build of this part in turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use weaver_benches::{interleaved, per_second};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::outcome::Retry;
use weaver_core::ports::{Admin, Expect, QueueSettings};
use weaver_core::prelude::*;
use weaver_postgres::PostgresStore;

use crate::server::Server;
use crate::{lifecycles, weaver};

const CLIENTS: usize = 4;
const IN_A_CALL: usize = 100;
const CALLS: usize = 10;
/// Every second task of a call has a key of its own.
const KEYS: usize = IN_A_CALL / 2;
const LIMIT: u32 = 1_000;

pub fn run(runtime: &Runtime, server: &Server) -> bool {
    let store = weaver::open(runtime, server);
    let limited = QueueSettings { max_running: Some(LIMIT), ..QueueSettings::default() };
    let (namespace, queue) = (Namespace::default(), QueueName::new("limited").expect("a name"));
    runtime.block_on(store.put_queue(&namespace, &queue, limited, Expect::Anything)).expect("it answers");
    let [single, keyed, limited, retried] = interleaved([
        &mut || weaver::lifecycles(runtime, &store, 16, 1, 60),
        &mut || each_client(runtime, &store, Kind::Keyed),
        &mut || each_client(runtime, &store, Kind::Limited),
        &mut || each_client(runtime, &store, Kind::Retried),
    ]);
    lifecycles::print("one in a call, 16 clients", &single);
    lifecycles::print("serial keys", &keyed);
    lifecycles::print("a limited queue", &limited);
    lifecycles::print("each retried once", &retried);
    // To pair them with the rounds of another build that ran in turns with this one.
    let kinds = [("one in a call", &single), ("serial keys", &keyed), ("limited", &limited)];
    for (what, samples) in kinds.into_iter().chain([("retried", &retried)]) {
        let rounds: Vec<_> = samples.rounds().iter().map(|round| format!("{round:.0}")).collect();
        println!("       rounds, {what}: {}", rounds.join(" "));
    }
    true
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Keyed,
    Limited,
    Retried,
}

fn each_client(runtime: &Runtime, store: &Arc<PostgresStore>, kind: Kind) -> f64 {
    let begun = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let store = Arc::clone(store);
            runtime.spawn(async move {
                for call in 0..CALLS {
                    live(&store, kind, client * CALLS + call).await;
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| runtime.block_on(client).expect("it ends well"));
    per_second((CLIENTS * CALLS * IN_A_CALL) as u64, begun.elapsed())
}

/// Enqueues tasks, and leases and ends as many.
async fn live(store: &PostgresStore, kind: Kind, call: usize) {
    let task = |at: usize| match kind {
        Kind::Keyed => weaver::task().serial_key(format!("{call}-{}", at % KEYS)),
        Kind::Limited => weaver::task().queue("limited"),
        Kind::Retried => weaver::task(),
    };
    store.enqueue_batch((0..IN_A_CALL).map(task).collect()).await.expect("the store answers");
    let mut left = IN_A_CALL;
    while left > 0 {
        let mut request = weaver::request(IN_A_CALL as u32);
        if matches!(kind, Kind::Limited) {
            request.queues = vec![QueueName::new("limited").expect("a name")];
        }
        let leased = store.lease(request).await.expect("the store answers");
        let ends: Vec<Transition> = leased.iter().map(|leased| end(leased, kind)).collect();
        left = left.saturating_sub(ends.iter().filter(|end| end.to == TaskState::Succeeded).count());
        if leased.is_empty() {
            // Another client has leased what this one enqueued, and ends it.
            return;
        }
        store.commit(ends, None).await.expect("the store answers");
    }
}

/// Success, but for the first attempt of a task that is retried.
fn end(leased: &Leased, kind: Kind) -> Transition {
    let outcome = match kind {
        Kind::Retried if leased.lease.attempt == 1 => {
            Outcome::Failed { error: "once".into(), retry: Retry::After(Duration::ZERO) }
        }
        _ => Outcome::DONE,
    };
    let command = Command::Finish { lease: leased.lease.clone(), outcome };
    decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease")
}
