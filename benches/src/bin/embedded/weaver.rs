//! Clients of the embedded store: each enqueues, leases and finishes one task at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use tokio::runtime::Runtime;
use weaver_benches::scratch::Scratch;
use weaver_core::lifecycle::{Command, decide};
use weaver_core::prelude::*;
use weaver_core::task::ContentType;
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};
use weaver_runtime::SystemClock;

use crate::disk::{Counted, CountedFile};
use crate::lifecycles::Round;

pub const PAYLOAD_BYTES: usize = 100;

/// A store on a counted file.
pub struct Subject {
    pub store: Arc<EmbeddedStore>,
    pub counted: Arc<Counted>,
    _scratch: Scratch,
}

impl Subject {
    pub fn new(name: &str, options: EmbeddedOptions) -> Self {
        let scratch = Scratch::new(name);
        let file = CountedFile::new(&scratch);
        let counted = Arc::clone(&file.counted);
        let store = EmbeddedStore::open_on(Arc::new(file), Arc::new(SystemClock::default()), options, true);
        Self { store: Arc::new(store.expect("a new store opens")), counted, _scratch: scratch }
    }
}

pub fn task() -> NewTask {
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES - 2));
    NewTask::new("bench").payload(Bytes::from(text), ContentType::JSON)
}

pub fn request(max: u32) -> LeaseRequest {
    static TOKENS: AtomicU64 = AtomicU64::new(1);
    let token = LeaseToken(TOKENS.fetch_add(1, Ordering::Relaxed).into());
    let worker = WorkerId::new("bench").expect("a name");
    LeaseRequest { max, ..LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token) }
}

/// Reports success for leased tasks.
pub async fn end(store: &EmbeddedStore, leased: &[Leased]) {
    let transitions = leased.iter().map(|leased| {
        let finish = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
        decide(&leased.record, finish, Timestamp::MIN).expect("the lease holds")
    });
    let answers = store.commit(transitions.collect(), None).await.expect("the store answers");
    assert!(answers.iter().all(|answer| matches!(answer, weaver_core::queue::Committed::Applied { .. })));
}

/// Lifecycles by this many clients.
pub fn lifecycles(runtime: &Runtime, store: &Arc<EmbeddedStore>, clients: usize, each: usize) -> Round {
    let begun = Instant::now();
    let running: Vec<_> = (0..clients)
        .map(|_| {
            let store = Arc::clone(store);
            runtime.spawn(async move {
                let mut latencies = Vec::with_capacity(each * 3);
                for _ in 0..each {
                    let start = Instant::now();
                    store.enqueue_batch(vec![task()]).await.expect("valid")[0].as_ref().expect("stored");
                    latencies.push(start.elapsed());
                    let start = Instant::now();
                    let leased = store.lease(request(1)).await.expect("the store answers");
                    assert_eq!(leased.len(), 1);
                    latencies.push(start.elapsed());
                    let start = Instant::now();
                    end(&store, &leased).await;
                    latencies.push(start.elapsed());
                }
                latencies
            })
        })
        .collect();
    Round::gather(runtime, running, clients * each, begun)
}
