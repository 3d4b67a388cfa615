//! A forge that calls a hook before and after each effect.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use weaver_merge::domain::{Oid, OnForeign, PullRequestState, Repository};
use weaver_merge::forge::{
    CommitSeen, Forge, ForgeError, Forges, Landing, MergeOutcome, MergeRequest, Moved,
};
use weaver_merge::plan::PullRequestSeen;

/// Called around each effect.
pub(crate) trait Hook: Send + Sync {
    fn before(&self, effect: &'static str);
    fn after(&self, _effect: &'static str) {}
}

impl<F: Fn(&'static str) + Send + Sync> Hook for F {
    fn before(&self, effect: &'static str) {
        self(effect);
    }
}

pub(crate) struct HookedForges {
    pub(crate) forges: Arc<dyn Forges>,
    pub(crate) hook: Arc<dyn Hook>,
}

impl Forges for HookedForges {
    fn open(&self, repository: &Repository) -> Arc<dyn Forge> {
        Arc::new(ObservedForge { forge: self.forges.open(repository), hook: Arc::clone(&self.hook) })
    }
}

struct ObservedForge {
    forge: Arc<dyn Forge>,
    hook: Arc<dyn Hook>,
}

impl ObservedForge {
    async fn observed<T>(&self, effect: &'static str, done: impl Future<Output = T> + Send) -> T {
        self.hook.before(effect);
        let answer = done.await;
        self.hook.after(effect);
        answer
    }
}

#[async_trait]
impl Forge for ObservedForge {
    async fn examine(&self, base: &str) -> Result<(), ForgeError> {
        self.forge.examine(base).await
    }
    async fn identity(&self) -> Result<String, ForgeError> {
        self.forge.identity().await
    }
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
        self.observed("clear_trigger", self.forge.clear_trigger(id)).await
    }
    async fn read_file(&self, commit: &Oid, path: &str, max: u64) -> Result<Option<Vec<u8>>, ForgeError> {
        self.forge.read_file(commit, path, max).await
    }
    async fn merge(&self, request: &MergeRequest) -> Result<MergeOutcome, ForgeError> {
        self.observed("merge", self.forge.merge(request)).await
    }
    async fn contains(&self, tip: &Oid, commit: &Oid) -> Result<bool, ForgeError> {
        self.forge.contains(tip, commit).await
    }
    async fn land(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Landing, ForgeError> {
        self.observed("land", self.forge.land(branch, from, to)).await
    }
    async fn moved(&self, branch: &str, from: &Oid, to: &Oid) -> Result<Moved, ForgeError> {
        self.forge.moved(branch, from, to).await
    }
    async fn introduced_by(&self, tip: &Oid, commit: &Oid) -> Result<Option<Oid>, ForgeError> {
        self.forge.introduced_by(tip, commit).await
    }
    fn on_foreign(&self) -> OnForeign {
        self.forge.on_foreign()
    }
    async fn commit(&self, commit: &Oid) -> Result<CommitSeen, ForgeError> {
        self.forge.commit(commit).await
    }
    async fn check_out(&self, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
        self.observed("check_out", self.forge.check_out(commit, into)).await
    }
    async fn restore(&self, commit: &Oid, paths: &[String], into: &Path) -> Result<(), ForgeError> {
        self.forge.restore(commit, paths, into).await
    }
    async fn contents_id(&self, commit: &Oid, paths: &[String]) -> Result<String, ForgeError> {
        self.forge.contents_id(commit, paths).await
    }
    async fn last_changes(&self, base: &Oid, head: &Oid, paths: &[String]) -> Result<Vec<Oid>, ForgeError> {
        self.forge.last_changes(base, head, paths).await
    }
    async fn update(&self, commit: &Oid, into: &Path) -> Result<(), ForgeError> {
        self.observed("check_out", self.forge.update(commit, into)).await
    }
}
