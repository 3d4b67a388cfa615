//! A store whose calls are lost, duplicated, delayed or stale.

use std::sync::Arc;
use std::time::Duration;

use weaver_merge::plan::Policy;
use weaver_testkit::faults::{FaultyStore, Rates, Seeded};

use crate::harness::{Harness, engine, forges};

const SEEDS: u64 = 6;

#[tokio::test]
async fn lost_duplicated_and_stale_store_calls_do_no_harm() {
    let rates = Rates { fail_before: 8, fail_after: 8, duplicate: 8, stale_read: 12, ..Rates::default() };
    for seed in 1..=SEEDS {
        let harness = Harness::new().await;
        let a = harness.add("a", &[("a", "1\n")]).await;
        let bad = harness.add("b", &[("bad", "1\n")]).await;
        let clock = Arc::new(harness.tasks.clock().clone());
        let store = FaultyStore::new(harness.tasks.store(), clock, Seeded::new(seed, rates));
        let lossy = engine(Arc::new(store), forges(), &harness.tasks, Policy::default());
        let registry = harness.registry();
        for _ in 0..12 {
            // Errors are expected: the next round retries.
            let _ = lossy.reconcile_all().await;
            harness.tasks.drain(&registry).await;
            harness.tasks.clock().advance(Duration::from_secs(10));
        }
        harness.settle().await;
        assert!(harness.has_landed(a).await, "seed {seed}");
        assert_eq!(harness.reason(bad).await.word(), "checks_failed", "seed {seed}");
        assert_eq!(harness.events().await.len(), 4, "every event is published, and duplicates share a key");
        harness.prove(&[]).await;
    }
}
