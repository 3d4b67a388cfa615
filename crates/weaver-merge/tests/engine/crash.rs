//! A crash before and after every effect, then a restart: it comes to the same end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use async_trait::async_trait;
use weaver_merge::domain::{Oid, PullRequestState, Repository};
use weaver_merge::forge::{CommitSeen, Forge, ForgeError, Forges, Landing, MergeOutcome, MergeRequest};
use weaver_merge::plan::{Policy, PullRequestSeen};
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::bench::{Bench, engine, forges};

/// Counts effects of a process and lets it die at one of them: from then on nothing it does arrives anywhere.
struct Life {
    effects_left: AtomicI64,
    dies_after: bool,
    is_dead: AtomicBool,
}

impl Life {
    fn fault(&self) -> Fault {
        if self.is_dead.load(Ordering::SeqCst) {
            return Fault::FailBefore;
        }
        if self.effects_left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Fault::None;
        }
        self.is_dead.store(true, Ordering::SeqCst);
        if self.dies_after { Fault::FailAfter } else { Fault::FailBefore }
    }
}

const WRITES: [&str; 4] = ["put_document", "enqueue_batch", "commit", "append_entries"];

struct MortalForges(Arc<Life>);

impl Forges for MortalForges {
    fn open(&self, repository: &Repository) -> Arc<dyn Forge> {
        Arc::new(Mortal { forge: forges().open(repository), life: Arc::clone(&self.0) })
    }
}

struct Mortal {
    forge: Arc<dyn Forge>,
    life: Arc<Life>,
}

impl Mortal {
    async fn suffer<T>(
        &self,
        effect: impl Future<Output = Result<T, ForgeError>> + Send,
    ) -> Result<T, ForgeError> {
        let dead = || Err(ForgeError::Unavailable("the process is dead".into()));
        match self.life.fault() {
            Fault::None => effect.await,
            Fault::FailAfter => {
                let _ = effect.await;
                dead()
            }
            _ => dead(),
        }
    }
}

#[async_trait]
impl Forge for Mortal {
    async fn tip(&self, branch: &str) -> Result<Option<Oid>, ForgeError> {
        self.forge.tip(branch).await
    }
    async fn change(&self, name: &str, base: &str) -> Result<Option<PullRequestState>, ForgeError> {
        self.forge.change(name, base).await
    }
    async fn changes(&self, ids: &[String], base: &str) -> Result<Vec<PullRequestSeen>, ForgeError> {
        self.forge.changes(ids, base).await
    }
    async fn clear_trigger(&self, id: &str) -> Result<(), ForgeError> {
        self.suffer(self.forge.clear_trigger(id)).await
    }
    async fn read_file(&self, commit: &Oid, path: &str, max: u64) -> Result<Option<Vec<u8>>, ForgeError> {
        self.forge.read_file(commit, path, max).await
    }
    async fn merge(&self, request: &MergeRequest) -> Result<MergeOutcome, ForgeError> {
        self.suffer(self.forge.merge(request)).await
    }
    async fn contains(&self, tip: &Oid, commit: &Oid) -> Result<bool, ForgeError> {
        self.forge.contains(tip, commit).await
    }
    async fn land(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Landing, ForgeError> {
        self.suffer(self.forge.land(branch, from, to)).await
    }
    async fn commit(&self, commit: &Oid) -> Result<CommitSeen, ForgeError> {
        self.forge.commit(commit).await
    }
    async fn check_out(&self, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
        self.forge.check_out(commit, into).await
    }
}

/// One world: one change lands, one fails its check; the engine dies at its effect number `at`. Says whether it died.
async fn world(at: i64, dies_after: bool) -> bool {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let bad = bench.add("b", &[("bad", "1\n")]).await;
    let life =
        Arc::new(Life { effects_left: AtomicI64::new(at), dies_after, is_dead: AtomicBool::new(false) });
    let plan = {
        let life = Arc::clone(&life);
        move |site: &CallSite| if WRITES.contains(&site.method) { life.fault() } else { Fault::None }
    };
    let clock = Arc::new(bench.tasks.clock().clone());
    let store = Arc::new(FaultyStore::new(bench.tasks.store(), clock, plan));
    let forges = Arc::new(MortalForges(Arc::clone(&life)));
    let mortal = engine(store, forges, &bench.tasks, Policy::default());
    let registry = bench.registry();
    for _ in 0..12 {
        // It may say that something went wrong: it is dying.
        let _ = mortal.reconcile_all().await;
        if life.is_dead.load(Ordering::SeqCst) {
            break;
        }
        bench.tasks.drain(&registry).await;
    }
    bench.settle().await;
    assert!(bench.has_landed(a).await, "effect {at}, after: {dies_after}");
    assert_eq!(bench.reason(bad).await.word(), "checks_failed", "effect {at}, after: {dies_after}");
    let keys: Vec<String> = bench.events().await.into_keys().collect();
    assert_eq!(keys.len(), 4, "everything is told: {keys:?}");
    assert_eq!(bench.state().await.tally.landed, 1);
    bench.prove(&[]).await;
    life.is_dead.load(Ordering::SeqCst)
}

/// Every effect with `WEAVER_CRASHES=all`, which takes a minute; else some of them.
async fn worlds(first: i64, dies_after: bool) {
    let is_thorough = std::env::var("WEAVER_CRASHES").is_ok_and(|wanted| wanted == "all");
    let (mut at, stride) = if is_thorough { (0, 1) } else { (first, 6) };
    while world(at, dies_after).await {
        at += stride;
    }
    assert!(at > 20, "it has many effects: {at}");
}

#[tokio::test]
async fn a_crash_before_any_effect_comes_to_the_same_end() {
    worlds(0, false).await;
}

#[tokio::test]
async fn a_crash_after_any_effect_comes_to_the_same_end() {
    worlds(3, true).await;
}
