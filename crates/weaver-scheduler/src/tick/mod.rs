//! Ticks: due schedules and events become tasks.
//!
//! ```text
//! due_documents ─▶ decide ─▶ write_documents: the decision, if the version is the one read
//!                                │ won                          └─▶ conflict: another node has decided
//!                  cancel replaced runs ─▶ enqueue_batch ─▶ journal ─▶ write_documents: done, next due
//! ```
//!
//! One node decides about a fire, because only one conditional write wins. Any node can carry the decision
//! out, because each step is idempotent.
//!
//! After a crash between two steps the decision is stored, and another node finishes it after
//! [`UNFINISHED_GRACE`](crate::definition).

mod decide;
mod events;
mod finish;
mod run_loop;
mod run_now;
mod sweep;
mod unreadable;
mod work;

pub(crate) use unreadable::UnreadableDocuments;

use std::collections::HashMap;

use weaver_core::id::TaskId;
use weaver_core::ports::{Document, DocumentKey};
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use crate::definition::{ConcurrencyPolicy, DEFINITION_KIND};
use crate::error::Result;
use crate::service::Scheduler;
use work::Work;

/// The most runs one tick creates; the next tick, which follows at once, creates the rest.
pub(crate) const RUNS_PER_TICK_MAX: usize = 10_000;

/// The result of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticked {
    /// Runs that were enqueued, or had been enqueued before.
    pub runs: usize,
    /// Schedules that were decided about.
    pub definitions: usize,
    /// Events that were marked as processed.
    pub events: usize,
    /// Conditional writes that another node won.
    pub lost: usize,
    /// Whether another tick should follow at once.
    pub more: bool,
    /// When the next schedule is due, if that is before the next poll.
    pub next_due: Option<Timestamp>,
}

impl Scheduler {
    /// Creates the runs of all due schedules and events. Any number of nodes may call it at the same time,
    /// and repeat it after an error.
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
        // One document shows whether anything is due, and if not, how long to sleep.
        let horizon = now.saturating_add(settings.poll_interval);
        let first = self.due_readable(DEFINITION_KIND, horizon, 1).await?;
        let Some(first) = first.first().and_then(|document| document.due) else { return Ok(()) };
        if first > now {
            ticked.next_due = Some(first);
            return Ok(());
        }
        let due = self.due_readable(DEFINITION_KIND, now, settings.batch_max).await?;
        // Only a tick that finds nothing due knows how long to sleep.
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

    /// Decodes schedules. An unreadable one is skipped, so that it does not block the others.
    fn open(&self, documents: &[Document]) -> Vec<Work> {
        let open = |document: &Document| {
            Work::open(document).inspect_err(|error| self.skip_unreadable(document, error)).ok()
        };
        documents.iter().filter_map(open).collect()
    }

    /// The unfinished runs of schedules that do not allow concurrent runs.
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
            // A cancelled run whose handler has not stopped still counts for `forbid`, but cannot be
            // cancelled again.
            let forbids = owner.stored.spec.concurrency_policy == ConcurrencyPolicy::Forbid;
            let is_live = |run: &TaskRecord| !run.state.is_terminal() || (forbids && run.has_hold());
            if let Some(record) = record.filter(is_live) {
                live.entry(owner.key.clone()).or_default().push(record.key.id);
            }
        }
        Ok(live)
    }
}
