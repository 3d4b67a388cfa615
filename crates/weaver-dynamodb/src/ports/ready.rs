//! Finds due tasks: `ready-index`, corrected by the overlay, and the gates of serial keys.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join_all;
use weaver_core::admission::{QueueFacts, fits_slots};
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::name::{Namespace, QueueName, SerialKey, TaskType};
use weaver_core::task::DispatchFilter;
use weaver_core::time::Timestamp;

use crate::db::{Index, Query, Range};
use crate::gate::Gate;
use crate::keys;
use crate::overlay::Ready;
use crate::queues::QueueState;
use crate::store::DynamoStore;

/// Number of tasks within which concurrent lease calls may reorder; also the page size of the index.
pub(crate) const CLAIM_WINDOW: usize = 100;

/// A search for due tasks.
#[derive(Debug)]
pub(crate) struct DueSearch<'a> {
    pub(crate) namespace: &'a Namespace,
    /// `None`: tasks of any type.
    pub(crate) types: Option<&'a [TaskType]>,
    /// Maximum number of tasks per queue.
    pub(crate) max: usize,
    /// Maximum number of fragile tasks.
    pub(crate) slots: u32,
    pub(crate) except: &'a HashSet<TaskKey>,
    pub(crate) now: Timestamp,
}

/// Where waiting tasks are: a partition of the index.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) queue: QueueName,
    pub(crate) facts: QueueFacts,
    pub(crate) partition: String,
}

/// Where the waiting tasks of the open ones of these queues are that have the wanted dispatch. Tasks with a
/// dispatch of their own are apart, and few queues have any.
pub(crate) fn sources(
    namespace: &Namespace,
    queues: &[QueueName],
    states: &HashMap<QueueName, QueueState>,
    wanted: DispatchFilter,
) -> Vec<Source> {
    let mut names = queues.to_vec();
    names.sort();
    names.dedup();
    let mut sources = Vec::new();
    for queue in names {
        let state = states.get(&queue).copied().unwrap_or_default();
        if state.blocked().is_some() {
            continue;
        }
        for own in wanted.parts(state.settings.dispatch).filter(|own| own.is_none() || state.has_own_dispatch)
        {
            let partition = keys::ready_partition(namespace, &queue, own);
            sources.push(Source { queue: queue.clone(), facts: state.facts(), partition });
        }
    }
    sources
}

/// The result of a [`DueSearch`].
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// In lease order (G7).
    pub(crate) tasks: Vec<Ready>,
    /// The gates of tasks with a serial key.
    pub(crate) gates: HashMap<SerialKey, Gate>,
    /// Due time of the next task that is not due yet.
    pub(crate) next_at: Option<Timestamp>,
}

impl DynamoStore {
    /// The first due tasks of several sources, within each queue's limit, merged in order.
    pub(crate) async fn due_in(&self, search: &DueSearch<'_>, sources: &[Source]) -> Result<Due> {
        let found = sources.iter().map(|source| self.due_in_source(search, source));
        let mut all = Due::default();
        for due in try_join_all(found).await? {
            all.tasks.extend(due.tasks);
            all.gates.extend(due.gates);
            all.next_at = [all.next_at, due.next_at].into_iter().flatten().min();
        }
        all.tasks.sort_by(|one, other| one.sort.cmp(&other.sort));
        Ok(all)
    }

    async fn due_in_source(&self, search: &DueSearch<'_>, source: &Source) -> Result<Due> {
        let (facts, partition) = (source.facts, source.partition.clone());
        let is_enough = |found: usize| found == search.max || facts.with_more(found as u64).is_full();
        let mut due = Due::default();
        let mut slots = search.slots;
        // Everything up to this sort key has been read.
        let mut position = String::new();
        while !is_enough(due.tasks.len()) {
            let range = if position.is_empty() { Range::All } else { Range::After(position.clone()) };
            let query = Query::index(Index::Ready, &partition).range(range).limit(CLAIM_WINDOW as u32);
            let found = self.db.query(query).await?;
            let page: Vec<Ready> = found.items.iter().filter_map(Ready::of_item).collect();
            let end = found.next.is_some().then(|| page.last().map(|ready| ready.sort.clone())).flatten();
            let page = {
                let mut overlay = self.overlay.lock();
                overlay.tick(self.clock.monotonic());
                overlay.correct(&partition, &position, end.as_deref(), page)
            };
            let (candidates, jump) = search.candidates(page, &mut due.next_at);
            self.read_gates(search, &candidates, &mut due.gates).await?;
            for ready in candidates {
                let may_go = ready
                    .serial_key
                    .as_ref()
                    .is_none_or(|key| due.gates.get(key).is_some_and(|gate| gate.admits(ready.key.id)));
                if !may_go
                    || self.is_quarantined(&ready.key)
                    || !fits_slots(ready.is_fragile, slots)
                    || is_enough(due.tasks.len())
                {
                    continue;
                }
                slots = slots.saturating_sub(u32::from(ready.is_fragile));
                due.tasks.push(ready);
            }
            match end {
                Some(end) => position = jump.filter(|jump| *jump > end).unwrap_or(end),
                None => break,
            }
        }
        Ok(due)
    }

    pub(super) async fn read_gates(
        &self,
        search: &DueSearch<'_>,
        candidates: &[Ready],
        gates: &mut HashMap<SerialKey, Gate>,
    ) -> Result<()> {
        let mut wanted: Vec<&SerialKey> =
            candidates.iter().filter_map(|ready| ready.serial_key.as_ref()).collect();
        wanted.sort();
        wanted.dedup();
        wanted.retain(|key| !gates.contains_key(*key));
        let read = wanted.iter().map(|key| self.gate(search.namespace, key, search.now));
        let read = try_join_all(read).await?;
        gates.extend(wanted.into_iter().cloned().zip(read));
        Ok(())
    }
}

impl DueSearch<'_> {
    /// The matching due tasks of a page; and where to continue if the rest of a priority is not due yet.
    fn candidates(&self, page: Vec<Ready>, next_at: &mut Option<Timestamp>) -> (Vec<Ready>, Option<String>) {
        let mut jump: Option<String> = None;
        let mut candidates = Vec::new();
        for ready in page {
            if jump.as_ref().is_some_and(|jump| ready.sort < *jump) {
                // It may be the next due task of a wanted type.
                self.note_next(&ready, next_at);
                continue;
            }
            if !ready.is_due(self.now) {
                self.note_next(&ready, next_at);
                // The next digit sorts after everything of this priority.
                jump = Some(char::from(b'0' + ready.priority() + 1).to_string());
                continue;
            }
            if self.wants(&ready) && !ready.is_expired(self.now) && !self.except.contains(&ready.key) {
                candidates.push(ready);
            }
        }
        (candidates, jump)
    }

    fn note_next(&self, ready: &Ready, next_at: &mut Option<Timestamp>) {
        if self.wants(ready) {
            *next_at = [*next_at, Some(ready.ready_at())].into_iter().flatten().min();
        }
    }

    fn wants(&self, ready: &Ready) -> bool {
        let of_type = |types: &[TaskType]| types.iter().any(|name| name.as_str() == ready.task_type);
        fits_slots(ready.is_fragile, self.slots) && self.types.is_none_or(of_type)
    }
}
