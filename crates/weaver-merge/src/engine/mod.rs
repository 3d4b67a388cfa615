//! Executes plans: documents, effects, events.
//!
//! ```text
//! reconcile ── load ─▶ observe ─▶ plan ─▶ save ─▶ perform ─▶ apply ─▶ save ─▶ publish ─▶ save
//! ```
//!
//! An action is stored before it is performed, and its result after.
//!
//! Every write of the queue is a compare-and-set on the version that was read. Two processes on one queue
//! slow each other down, and cause no harm: the version fences out the slower one.
//!
//! Entry documents are written before the queue that references them.

mod add;
mod certificate;
mod chain;
mod commands;
mod documents;
mod effects;
mod error;
mod event;
mod history;
mod link;
mod observe;
mod publish;
mod readable;
mod rebuild;
mod remove;
mod run;
mod shares;
mod verify;
mod wake;

use std::sync::Arc;

use tokio::sync::watch;
use weaver_core::clock::Clock;
use weaver_core::name::Namespace;
use weaver_core::ports::Store;
use weaver_core::time::Timestamp;

pub use certificate::{Certificate, CertifiedCheck, Verified};
pub use commands::{NewEntry, Position};
pub use documents::{ENTRY_KIND, EntryDetail, LINK_KIND, MergeDocuments, QUEUE_KIND, VersionedQueue};
pub use error::EngineError;
pub use event::{Event, JournalEvent, Pinned, event_stream};
pub use link::{Fact, Link, SignedLink};
pub(crate) use observe::read_config;
pub use readable::check_body;
pub(crate) use rebuild::build_again;
pub use verify::{ChainExport, ChainReport, LinkReport};

use crate::domain::{MergeQueue, QueueId};
use crate::forge::Forges;
use crate::keys::Keyring;
use crate::notify::Notifications;
use crate::plan::{Policy, apply, plan};
use effects::ActionResult;
use shares::Shares;
use wake::Wakers;

/// Plans per reconciliation. Each makes progress, so only a queue that other processes keep changing needs as
/// many.
const ROUNDS_MAX: usize = 200;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Namespace of its documents, and of the tasks of queues without a namespace of their own.
    pub namespace: Namespace,
    /// Limits and intervals of the operator.
    pub policy: Policy,
    /// Webhook, command and templates.
    pub notifications: Notifications,
    /// Signing key and trusted keys of the chains.
    pub keyring: Keyring,
}

/// The merge queues whose documents are in one namespace.
#[derive(Clone)]
pub struct MergeEngine {
    store: Arc<dyn Store>,
    documents: MergeDocuments,
    forges: Arc<dyn Forges>,
    clock: Arc<dyn Clock>,
    options: Arc<EngineOptions>,
    /// Incremented with every change by a command, so that any number of tasks can wait for the next.
    changed: watch::Sender<u64>,
    /// Incremented with every published event.
    published: watch::Sender<u64>,
    wakers: Arc<Wakers>,
    shares: Arc<Shares>,
}

impl MergeEngine {
    /// Any number of engines, on any number of nodes, may share a store.
    pub fn new(
        store: Arc<dyn Store>,
        forges: Arc<dyn Forges>,
        clock: Arc<dyn Clock>,
        options: EngineOptions,
    ) -> Self {
        let documents = MergeDocuments::new(Arc::clone(&store));
        let (changed, published) = (watch::Sender::default(), watch::Sender::default());
        let (options, wakers, shares) = (Arc::new(options), Arc::default(), Arc::default());
        Self { store, documents, forges, clock, options, changed, published, wakers, shares }
    }

    /// Namespace of its documents, and of the tasks of queues without a namespace of their own.
    pub fn namespace(&self) -> &Namespace {
        &self.options.namespace
    }

    /// Access namespace of a queue: permissions are checked there, and its tasks are there.
    pub fn namespace_of<'a>(&'a self, queue: &'a MergeQueue) -> &'a Namespace {
        queue.namespace.as_ref().unwrap_or(&self.options.namespace)
    }

    /// Limits and intervals of the operator.
    pub fn policy(&self) -> &Policy {
        &self.options.policy
    }

    /// Changes when a command changed a queue through this engine or a clone of it.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Changes when this engine or a clone of it published events. Other processes publish too: poll as well.
    pub fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// Reconciles every queue once, one after the other, the most urgent first; [`run`](Self::run) does so
    /// concurrently. Returns when to reconcile again at the latest, and the errors by queue: a failing queue
    /// does not hold up the others.
    pub async fn reconcile_all(
        &self,
    ) -> Result<(Option<Timestamp>, Vec<(QueueId, EngineError)>), EngineError> {
        let mut queues = self.queues().await?;
        queues.sort_by_key(|queue| (queue.priority, queue.created_at));
        let (mut wake_at, mut problems) = (None, Vec::new());
        for queue in queues {
            match self.reconcile_apart(&queue.id).await {
                Ok(at) => wake_at = [wake_at, at].into_iter().flatten().min(),
                // It was removed meanwhile.
                Err(EngineError::NoQueue(_)) => {}
                Err(error) => problems.push((queue.id, error)),
            }
        }
        Ok((wake_at, problems))
    }

    /// Advances a queue until it has to wait. Returns when to reconcile again at the latest.
    ///
    /// # Errors
    /// [`EngineError::NoQueue`] if there is none, or it was removed.
    pub async fn reconcile(&self, id: &QueueId) -> Result<Option<Timestamp>, EngineError> {
        let mut is_changed = false;
        for _ in 0..ROUNDS_MAX {
            let round = match self.get(id).await {
                Ok(stored) if stored.queue.is_removed() => Err(EngineError::NoQueue(id.clone())),
                Ok(stored) => self.round(stored).await,
                Err(error) => Err(error),
            };
            match round {
                Ok(Round::Progress) => is_changed = true,
                Ok(Round::Waits(wake_at)) => {
                    if is_changed {
                        self.wake_limited();
                    }
                    return Ok(wake_at);
                }
                Err(error) => {
                    self.wake_limited();
                    return Err(error);
                }
            }
        }
        Ok(Some(self.clock.now()))
    }

    /// Wakes the queues that another one may have made room for.
    fn wake_limited(&self) {
        for id in self.shares.take_limited() {
            self.wakers.wake(&id);
        }
    }

    async fn round(&self, mut stored: VersionedQueue) -> Result<Round, EngineError> {
        if stored.queue.chain.is_none()
            && stored.queue.removal.is_none()
            && stored.queue.validate().is_ok()
            && self.start_chain(&mut stored).await?
        {
            return Ok(Round::Progress);
        }
        let mut seen = self.observe(&stored.queue).await?;
        let all = self.queues().await?;
        let (policy, now) = (&self.options.policy, self.clock.now());
        let planned = self.shares.plan(&stored.queue, &all, policy, |allotment| {
            (seen.is_active, seen.slots) = (allotment.is_active, allotment.slots);
            plan(&stored.queue, &seen, policy, now)
        });
        let plan = match planned {
            Ok(plan) => plan,
            Err(broken) => return self.pause_corrupted(stored, &broken.to_string()).await,
        };
        let mut round = RoundState { progress: plan.queue != stored.queue, stored };
        if round.progress && !self.save(&mut round.stored, plan.queue).await? {
            return Ok(Round::Progress);
        }
        for action in plan.actions {
            match self.perform(&round.stored.queue, action).await? {
                ActionResult::Nothing => {}
                ActionResult::Replan => round.progress = true,
                ActionResult::Report(report) => {
                    let mut next = round.stored.queue.clone();
                    if apply(&mut next, report, &self.options.policy, self.clock.now())? {
                        round.progress = true;
                        if !self.save(&mut round.stored, next).await? {
                            return Ok(Round::Progress);
                        }
                    }
                }
            }
        }
        round.progress |= self.publish(&mut round.stored).await?;
        Ok(if round.progress { Round::Progress } else { Round::Waits(plan.wake_at) })
    }

    /// Saves the next queue with its links; false on a conflict, which needs a new plan.
    async fn save(&self, stored: &mut VersionedQueue, mut next: MergeQueue) -> Result<bool, EngineError> {
        let certificates = self.certify(&stored.queue, &mut next).await?;
        self.documents.save(&self.options.namespace, stored, next, &certificates).await
    }

    /// The stored queue breaks an invariant: pauses it and removes nothing.
    async fn pause_corrupted(&self, stored: VersionedQueue, broken: &str) -> Result<Round, EngineError> {
        if stored.queue.paused.is_none() {
            let mut next = stored.queue.clone();
            next.pause(
                crate::domain::MergeError::QueueCorrupted(broken.to_owned()).to_string(),
                self.clock.now(),
            );
            // On a conflict, the next round pauses it.
            let _ = self.documents.save_unchecked(&self.options.namespace, stored.version, &next).await?;
        }
        let mut stored = self.get(&stored.queue.id).await?;
        self.publish(&mut stored).await?;
        Ok(Round::Waits(None))
    }
}

struct RoundState {
    stored: VersionedQueue,
    progress: bool,
}

enum Round {
    Progress,
    Waits(Option<Timestamp>),
}
