//! The loop of a node: heartbeat, look, then lead or try to.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{pending, select_all};
use weaver_core::clock::Clock;
use weaver_core::cluster::{
    ClusterSettings, LeaderBody, LeaderWatch, NODE_KIND, NodeBody, Seen, body, leader_key, look, node_key,
};
use weaver_core::error::{Error, Result};
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::ports::{AssignableRequest, Expect, Store};
use weaver_core::queue::{Interest, Wake};
use weaver_core::time::Monotonic;

use crate::lead::Leader;
use crate::term::Term;

/// A node that was silent for this long is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Arrivals within this time are assigned together.
const GATHER: Duration = Duration::from_millis(5);

/// The identity of a node.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Unique over all nodes and restarts.
    pub name: String,
    /// Its host: a take-over prefers another one.
    pub host: String,
    /// The address of its HTTP API, if it serves one.
    pub address: Option<String>,
    /// Workers of this process. While it leads they are given a task only if no other worker serves it.
    pub own_workers: BTreeSet<WorkerId>,
    /// How often it sends a heartbeat, well below `leader_stale`: a store in a directory has one process, and
    /// need not be written each second.
    pub heartbeat_every: Duration,
    /// The same on every node.
    pub settings: ClusterSettings,
}

/// A node: it sends heartbeats, and leads when it is its turn.
pub struct ClusterNode {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    options: NodeOptions,
    watch: LeaderWatch,
    leading: Option<(Term, Leader)>,
    heartbeat_due: Monotonic,
}

impl ClusterNode {
    /// A node that does nothing before [`run`](Self::run) or [`tick`](Self::tick).
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: NodeOptions) -> Self {
        let heartbeat_due = clock.monotonic();
        let watch = LeaderWatch::new(heartbeat_due);
        Self { store, clock, options, watch, leading: None, heartbeat_due }
    }

    /// Whether it leads, as far as it knows.
    pub fn is_leading(&self) -> bool {
        self.leading.as_ref().is_some_and(|(term, _)| term.is_valid(self.clock.monotonic()))
    }

    /// Runs until `stop`, and then resigns, so that another node may lead at once.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = Box::pin(stop);
        loop {
            let next_at = self.clock.monotonic().saturating_add(self.options.settings.tick);
            let waits_for = match self.tick().await {
                Ok(waits_for) => waits_for,
                Err(error) => {
                    let node = &self.options.name;
                    tracing::warn!(node, %error, "a turn of the cluster failed; retrying");
                    Vec::new()
                }
            };
            let wake = async {
                tokio::select! {
                    () = self.clock.sleep_until(next_at) => {}
                    () = self.arrival(waits_for) => {
                        self.clock.sleep_until(self.clock.monotonic().saturating_add(GATHER)).await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = wake => {}
            }
        }
        if let Err(error) = self.resign().await {
            tracing::debug!(%error, "resigning failed; another node takes over after the usual silence");
        }
    }

    /// One tick: heartbeat, look, and a turn as the leader if it is one. Returns what it would assign next.
    pub async fn tick(&mut self) -> Result<Vec<AssignableRequest>> {
        let sent_at = self.clock.monotonic();
        let is_due = sent_at >= self.heartbeat_due;
        if is_due {
            self.send_heartbeat(false).await?;
            self.heartbeat_due = sent_at.saturating_add(self.options.heartbeat_every);
        }
        let seen = look(&*self.store).await?;
        self.confirm(&seen, is_due.then_some(sent_at));
        self.watch.observe(seen, self.clock.monotonic());
        if self.leading.is_none() {
            self.try_to_lead().await?;
        }
        let Some((term, leader)) = &mut self.leading else { return Ok(Vec::new()) };
        match leader.turn(term).await {
            Ok(turn) => {
                if turn.assigned + turn.orphaned > 0 {
                    tracing::debug!(assigned = turn.assigned, orphaned = turn.orphaned, "assigned tasks");
                }
                Ok(turn.waits_for)
            }
            Err(Error::Deposed { .. }) => {
                tracing::info!(node = self.options.name, "another node leads now");
                self.leading = None;
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    async fn send_heartbeat(&self, stopped: bool) -> Result<()> {
        let node = NodeBody {
            host: self.options.host.clone(),
            address: self.options.address.clone(),
            epoch: self.leading.as_ref().map(|(term, _)| term.epoch.0),
            stopped,
        };
        let key = node_key(&self.options.name);
        self.store.put_document(&key, body(&node), Expect::Anything, None).await.map(drop)
    }

    /// A heartbeat that was stored, and a document that still names this node, confirm its term.
    fn confirm(&mut self, seen: &Seen, sent_at: Option<Monotonic>) {
        let Some((term, _)) = &mut self.leading else { return };
        if seen.epoch == Some(term.epoch) && seen.node.as_deref() == Some(&*self.options.name) {
            if let Some(sent_at) = sent_at {
                *term = Term::confirmed(term.epoch, sent_at, &self.options.settings);
            }
        } else {
            tracing::info!(node = self.options.name, "another node leads now");
            self.leading = None;
        }
    }

    async fn try_to_lead(&mut self) -> Result<()> {
        let (now, settings) = (self.clock.monotonic(), self.options.settings);
        let (name, host) = (&self.options.name, &self.options.host);
        // A node that finds its own name has restarted under it, or lost its term: it waits like the others.
        if !self.watch.may_take_over(name, host, &settings, now) {
            return Ok(());
        }
        let expect = self.watch.seen().epoch.map_or(Expect::Absent, Expect::Version);
        let leader = LeaderBody { node: Some(name.clone()), host: host.clone(), resigned: None };
        match self.store.put_document(&leader_key(), body(&leader), expect, None).await {
            Ok(epoch) => {
                tracing::info!(node = name, epoch = epoch.0, "this node leads now");
                let term = Term::confirmed(epoch, now, &settings);
                let own = self.options.own_workers.clone();
                let leader = Leader::new(Arc::clone(&self.store), Arc::clone(&self.clock), settings, own);
                self.leading = Some((term, leader));
                // The others look for it from now on.
                self.heartbeat_due = now;
                self.forget_nodes().await
            }
            // Another node was elected at the same time.
            Err(Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lets another node lead at once.
    async fn resign(&mut self) -> Result<()> {
        if let Some((term, _)) = self.leading.take() {
            let (resigned, host) = (Some(self.options.name.clone()), self.options.host.clone());
            let vacant = LeaderBody { node: None, host, resigned };
            let expect = Expect::Version(term.epoch);
            match self.store.put_document(&leader_key(), body(&vacant), expect, None).await {
                Ok(_) | Err(Error::Conflict { .. }) => {}
                // Its heartbeat says so as well.
                Err(_) => return self.send_heartbeat(true).await,
            }
        }
        self.store.delete_document(&node_key(&self.options.name), Expect::Anything).await
    }

    /// Removes the heartbeats of processes that were killed long ago: each start has a name of its own.
    async fn forget_nodes(&self) -> Result<()> {
        let internal = Namespace::internal();
        let nodes = self.store.list_documents(&internal, NODE_KIND, "", None, PAGE_MAX).await?.items;
        let Some(newest) = nodes.iter().map(|node| node.updated_at).max() else { return Ok(()) };
        for node in nodes.iter().filter(|node| newest.since(node.updated_at) > FORGET_AFTER) {
            match self.store.delete_document(&node.key, Expect::Version(node.version)).await {
                Ok(()) | Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until a task arrives that this leader would assign.
    async fn arrival(&self, waits_for: Vec<AssignableRequest>) {
        let wait = |request: AssignableRequest| {
            let interest = Interest::Assignable {
                namespace: request.namespace,
                queues: request.queues,
                types: request.types,
            };
            Box::pin(async move {
                match self.store.wait(interest, self.options.settings.tick).await {
                    Ok(Wake::Ready) => {}
                    // The tick comes first.
                    Ok(Wake::TimedOut) | Err(_) => pending().await,
                }
            })
        };
        let waits: Vec<_> = waits_for.into_iter().map(wait).collect();
        if waits.is_empty() {
            return pending().await;
        }
        select_all(waits).await;
    }
}
