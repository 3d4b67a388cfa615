//! Ticks: due definitions and events become tasks.
//!
//! ```text
//! due_documents ─▶ decide ─▶ write_documents: the decision, on the version read ─▶ (lost: somebody else decided)
//!                                │ won
//!                  cancel what is replaced ─▶ enqueue_batch, by keys ─▶ journal ─▶ write_documents: done, next due
//! ```
//!
//! One node decides what a fire becomes, because one conditional write wins; any node can carry it out,
//! because each step can be repeated. A crash between two of them leaves the decision, and whoever comes by
//! after [`UNFINISHED_GRACE`](crate::definition) finishes it.

mod by_hand;
mod decide;
mod events;
mod finish;
mod sweep;
mod unreadable;
mod watch;
mod work;

pub(crate) use unreadable::PassedOver;

use std::collections::HashMap;

use weaver_core::id::TaskId;
use weaver_core::ports::{Document, DocumentKey};
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use crate::definition::{ConcurrencyPolicy, DEFINITION_KIND};
use crate::error::Result;
use crate::service::Scheduler;
use work::Work;

/// The most runs one tick makes; what is left is for the next, at once.
pub(crate) const RUNS_PER_TICK_MAX: usize = 10_000;

/// What a tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticked {
    /// Runs that were enqueued, new or found.
    pub runs: usize,
    /// Definitions that were decided about.
    pub definitions: usize,
    /// Events that were processed.
    pub events: usize,
    /// Definitions and events that another node was faster with.
    pub lost: usize,
    /// Whether there is more to do at once.
    pub more: bool,
    /// When the next definition is due, if that is before the next poll.
    pub next_due: Option<Timestamp>,
}

impl Scheduler {
    /// Makes the runs of everything that is due. May be called by any number of nodes at once, and again
    /// after an error.
    pub async fn tick(&self) -> Result<Ticked> {
        let mut ticked = Ticked::default();
        if self.settings.current().paused {
            return Ok(ticked);
        }
        self.tick_definitions(&mut ticked).await?;
        self.tick_events(&mut ticked).await?;
        Ok(ticked)
    }

    async fn tick_definitions(&self, ticked: &mut Ticked) -> Result<()> {
        let settings = self.settings.current();
        let now = self.clock.now();
        // One document tells whether anything is due, and if not, how long to sleep.
        let horizon = now.saturating_add(settings.poll_interval);
        let first = self.due_readable(DEFINITION_KIND, horizon, 1).await?;
        let Some(first) = first.first().and_then(|document| document.due) else { return Ok(()) };
        if first > now {
            ticked.next_due = Some(first);
            return Ok(());
        }
        let due = self.due_readable(DEFINITION_KIND, now, settings.batch_max).await?;
        // At once again: only a tick that finds nothing due knows how long to sleep.
        ticked.more = !due.is_empty();
        let works = self.open(&due);
        let (mut ready, fresh): (Vec<Work>, Vec<Work>) =
            works.into_iter().partition(|work| work.stored.state.is_unfinished());
        let live = self.live(&fresh).await?;
        let (mut decided, mut runs) = (Vec::new(), 0);
        for mut work in fresh {
            if runs >= RUNS_PER_TICK_MAX {
                break;
            }
            let of = live.get(&work.key).cloned().unwrap_or_default();
            decide::fires(&mut work, &of, now);
            runs += work.stored.state.pending.len();
            decided.push(work);
        }
        ticked.definitions += decided.len();
        let (won, lost) = self.save(decided).await?;
        ticked.lost += lost.len();
        ready.extend(won.into_iter().filter(|work| work.stored.state.is_unfinished()));
        ticked.runs += self.finish(ready, &HashMap::new()).await?.len();
        Ok(())
    }

    /// Reads definitions. One that cannot be read is passed over, so that it is not in the way of others.
    fn open(&self, documents: &[Document]) -> Vec<Work> {
        let open = |document: &Document| {
            Work::open(document).inspect_err(|error| self.pass_over(document, error)).ok()
        };
        documents.iter().filter_map(open).collect()
    }

    /// The runs that have not ended, of the definitions to which that matters.
    async fn live(&self, works: &[Work]) -> Result<HashMap<DocumentKey, Vec<TaskId>>> {
        let matters = |work: &&Work| work.stored.spec.concurrency_policy != ConcurrencyPolicy::Allow;
        let (mut owners, mut keys) = (Vec::new(), Vec::new());
        for work in works.iter().filter(matters) {
            for key in work.run_keys() {
                owners.push(work);
                keys.push(key);
            }
        }
        let mut live: HashMap<_, Vec<TaskId>> = HashMap::new();
        if keys.is_empty() {
            return Ok(live);
        }
        for (owner, record) in owners.into_iter().zip(self.store.get_tasks(&keys).await?) {
            // A handler that was told to stop and has not is still in the way, but cannot be cancelled once
            // more.
            let forbids = owner.stored.spec.concurrency_policy == ConcurrencyPolicy::Forbid;
            let is_live = |run: &TaskRecord| !run.state.is_terminal() || (forbids && run.has_hold());
            if let Some(record) = record.filter(is_live) {
                live.entry(owner.key.clone()).or_default().push(record.key.id);
            }
        }
        Ok(live)
    }
}
