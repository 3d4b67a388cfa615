//! What the engine says and hears is lost, doubled, late or from the past.

use std::sync::Arc;
use std::time::Duration;

use weaver_merge::plan::Policy;
use weaver_testkit::faults::{FaultyStore, Rates, Seeded};

use crate::bench::{Bench, engine, forges};

const SEEDS: u64 = 6;

#[tokio::test]
async fn calls_that_are_lost_doubled_or_answered_from_the_past_harm_nothing() {
    let rates = Rates { fail_before: 8, fail_after: 8, duplicate: 8, stale_read: 12, ..Rates::default() };
    for seed in 1..=SEEDS {
        let bench = Bench::new().await;
        let a = bench.add("a", &[("a", "1\n")]).await;
        let bad = bench.add("b", &[("bad", "1\n")]).await;
        let clock = Arc::new(bench.tasks.clock().clone());
        let store = FaultyStore::new(bench.tasks.store(), clock, Seeded::new(seed, rates));
        let lossy = engine(Arc::new(store), forges(), &bench.tasks, Policy::default());
        let registry = bench.registry();
        for _ in 0..12 {
            // What went wrong is tried again: that is the point.
            let _ = lossy.reconcile_all().await;
            bench.tasks.drain(&registry).await;
            bench.tasks.clock().advance(Duration::from_secs(10));
        }
        bench.settle().await;
        assert!(bench.has_landed(a).await, "seed {seed}");
        assert_eq!(bench.reason(bad).await.word(), "checks_failed", "seed {seed}");
        assert_eq!(bench.events().await.len(), 4, "everything is told, and twice is once by its key");
        bench.prove(&[]).await;
    }
}
