//! What makes plans come true: documents, effects, events.
//!
//! ```text
//! reconcile ── load ─▶ observe ─▶ plan ─▶ save ─▶ perform ─▶ apply ─▶ save ─▶ publish ─▶ save
//! ```
//!
//! What is to be done is stored before it is done, and what came of it after. Every write of the queue
//! expects the version that was read, so two processes on one queue disturb each other and harm nothing.
//! Entry documents are written before the queue that mentions them.

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
mod run;
mod verify;

use std::sync::Arc;

use tokio::sync::watch;
use weaver_core::clock::Clock;
use weaver_core::name::Namespace;
use weaver_core::ports::Store;
use weaver_core::time::Timestamp;

pub use certificate::{Certificate, CertifiedCheck, Verified};
pub use commands::Position;
pub use documents::{ENTRY_KIND, EntryDetail, LINK_KIND, Ledger, QUEUE_KIND, Stored};
pub use error::EngineError;
pub use event::{Event, Written, event_stream};
pub use link::{Fact, Link, SignedLink};
pub(crate) use observe::read_config;
pub use readable::check_body;
pub use verify::{ChainExport, ChainReport, LinkReport};

use crate::domain::{MergeQueue, QueueId};
use crate::forge::Forges;
use crate::keys::Keyring;
use crate::notify::Notifications;
use crate::plan::{Policy, apply, plan};
use effects::Performed;

/// How many plans one call makes at most. Each makes progress, so only a queue that others keep changing
/// takes as many.
const ROUNDS_MAX: usize = 200;

/// What an engine works with.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where its documents and tasks are.
    pub namespace: Namespace,
    /// Limits and times.
    pub policy: Policy,
    /// Who is told what.
    pub notifications: Notifications,
    /// What links of chains are signed with, and whose signatures count.
    pub keyring: Keyring,
}

/// The merge queues of one namespace.
#[derive(Clone)]
pub struct MergeEngine {
    store: Arc<dyn Store>,
    ledger: Ledger,
    forges: Arc<dyn Forges>,
    clock: Arc<dyn Clock>,
    options: Arc<EngineOptions>,
    /// Grows with every change a command makes here, so that any number of tasks can wait for the next.
    changed: watch::Sender<u64>,
    /// The same for events that were written here.
    told: watch::Sender<u64>,
}

impl MergeEngine {
    /// An engine over a store. Any number may work on the same one.
    pub fn new(
        store: Arc<dyn Store>,
        forges: Arc<dyn Forges>,
        clock: Arc<dyn Clock>,
        options: EngineOptions,
    ) -> Self {
        let ledger = Ledger::new(Arc::clone(&store));
        let (changed, told) = (watch::Sender::default(), watch::Sender::default());
        Self { store, ledger, forges, clock, options: Arc::new(options), changed, told }
    }

    /// Where its documents and tasks are.
    pub fn namespace(&self) -> &Namespace {
        &self.options.namespace
    }

    /// What the operator decided.
    pub fn policy(&self) -> &Policy {
        &self.options.policy
    }

    /// Changes when somebody changed a queue through this engine or a clone of it.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Changes when this engine or a clone of it wrote events. Others may write too: look every so often
    /// anyway.
    pub fn told(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// Brings every queue as far as it goes now, the most urgent first. Answers when there is something to do
    /// next even if nothing happens, and what went wrong with which queue: one in trouble does not hold up
    /// the others.
    pub async fn reconcile_all(
        &self,
    ) -> Result<(Option<Timestamp>, Vec<(QueueId, EngineError)>), EngineError> {
        let mut queues = self.queues().await?;
        queues.sort_by_key(|queue| (queue.priority, queue.created_at));
        let (mut wake_at, mut problems) = (None, Vec::new());
        for queue in queues {
            match self.reconcile(&queue.id).await {
                Ok(at) => wake_at = [wake_at, at].into_iter().flatten().min(),
                Err(error) => problems.push((queue.id, error)),
            }
        }
        Ok((wake_at, problems))
    }

    /// Brings a queue as far as it goes now.
    pub async fn reconcile(&self, id: &QueueId) -> Result<Option<Timestamp>, EngineError> {
        for _ in 0..ROUNDS_MAX {
            let stored = self.get(id).await?;
            match self.round(stored).await? {
                Round::Progress => {}
                Round::Waits(wake_at) => return Ok(wake_at),
            }
        }
        Ok(Some(self.clock.now()))
    }

    async fn round(&self, mut stored: Stored) -> Result<Round, EngineError> {
        if stored.queue.chain.is_none()
            && stored.queue.validate().is_ok()
            && self.start_chain(&mut stored).await?
        {
            return Ok(Round::Progress);
        }
        let seen = self.observe(&stored.queue).await?;
        let now = self.clock.now();
        let plan = match plan(&stored.queue, &seen, &self.options.policy, now) {
            Ok(plan) => plan,
            Err(broken) => return self.pause_corrupted(stored, &broken.to_string()).await,
        };
        let mut held = Held { progress: plan.queue != stored.queue, stored };
        if held.progress && !self.save(&mut held.stored, plan.queue).await? {
            return Ok(Round::Progress);
        }
        for action in plan.actions {
            match self.perform(&held.stored.queue, action).await? {
                Performed::Nothing => {}
                Performed::LookAgain => held.progress = true,
                Performed::Report(report) => {
                    let mut next = held.stored.queue.clone();
                    if apply(&mut next, report, &self.options.policy, self.clock.now())? {
                        held.progress = true;
                        if !self.save(&mut held.stored, next).await? {
                            return Ok(Round::Progress);
                        }
                    }
                }
            }
        }
        held.progress |= self.publish(&mut held.stored).await?;
        Ok(if held.progress { Round::Progress } else { Round::Waits(plan.wake_at) })
    }

    /// Saves what comes next; `false` if somebody else was faster and it must be planned again.
    async fn save(&self, stored: &mut Stored, mut next: MergeQueue) -> Result<bool, EngineError> {
        let certificates = self.certify(&stored.queue, &mut next).await?;
        self.ledger.save(&self.options.namespace, stored, next, &certificates).await
    }

    /// What is stored breaks the invariants: nothing is removed, nothing is done, people are told.
    async fn pause_corrupted(&self, stored: Stored, broken: &str) -> Result<Round, EngineError> {
        if stored.queue.paused.is_none() {
            let mut next = stored.queue.clone();
            next.pause(
                crate::domain::MergeError::QueueCorrupted(broken.to_owned()).to_string(),
                self.clock.now(),
            );
            self.ledger.save_unchecked(&self.options.namespace, stored.version, &next).await?;
        }
        let mut stored = self.get(&stored.queue.id).await?;
        self.publish(&mut stored).await?;
        Ok(Round::Waits(None))
    }
}

struct Held {
    stored: Stored,
    progress: bool,
}

/// What came of one plan.
enum Round {
    Progress,
    Waits(Option<Timestamp>),
}
