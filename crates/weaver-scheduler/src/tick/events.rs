//! Processing events: one run per event for each schedule with a matching trigger.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use weaver_core::error::Error as StoreError;
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::Namespace;
use weaver_core::ports::{Document, DocumentKey, DocumentWrite, Expect};
use weaver_core::time::Timestamp;

use super::finish::{Events, run_event};
use super::work::Work;
use super::{RUNS_PER_TICK_MAX, Ticked, decide};
use crate::definition::{ConcurrencyPolicy, PendingRun, Stored, TRIGGER_KIND, Trigger};
use crate::error::Result;
use crate::event::{EVENT_KIND, StoredEvent};
use crate::run::event_key;
use crate::service::Scheduler;

/// Decided events, not yet marked as processed, that a schedule with a concurrency policy may have.
const DECIDED_MAX: usize = 2000;

/// An unprocessed event with its document.
struct Due {
    document: Document,
    event: StoredEvent,
}

impl Scheduler {
    pub(super) async fn tick_events(&self, ticked: &mut Ticked) -> Result<()> {
        let now = self.clock.now();
        let batch_max = self.settings.current().batch_max;
        let documents = self.due_readable(EVENT_KIND, now, batch_max).await?;
        if documents.is_empty() {
            return Ok(());
        }
        let is_full = documents.len() >= batch_max as usize;
        let mut due = self.open_events(documents);
        let waiting = self.waiting_for(&due).await?;
        let fits = fitting(&due, &waiting);
        let is_more = is_full || fits < due.len();
        due.truncate(fits);
        let cached: Events = due
            .iter()
            .map(|due| (due.document.key.clone(), run_event(&due.document.key.id, due.event.clone())))
            .collect();
        let (plain, guarded): (Vec<Work>, Vec<Work>) = waiting
            .into_iter()
            .partition(|work| work.stored.spec.concurrency_policy == ConcurrencyPolicy::Allow);
        let not_yet = self.decide_guarded(guarded, &due, &cached, now, ticked).await?;
        self.run_plain(plain, &due, &cached, ticked).await?;
        due.retain(|due| !not_yet.contains(&due.document.key));
        self.mark_processed(due, now, ticked).await?;
        // Not at once if none could be processed: they wait for unfinished decisions.
        ticked.more |= is_more && ticked.events > 0;
        Ok(())
    }

    fn open_events(&self, documents: Vec<Document>) -> Vec<Due> {
        let open = |document: Document| match StoredEvent::read(&document) {
            Ok(event) => Some(Due { document, event }),
            Err(error) => {
                self.skip_unreadable(&document, &error);
                None
            }
        };
        documents.into_iter().filter_map(open).collect()
    }

    /// The enabled schedules with a trigger for the types of these events.
    async fn waiting_for(&self, due: &[Due]) -> Result<Vec<Work>> {
        let types: BTreeSet<(&Namespace, &str)> = due
            .iter()
            .map(|due| (&due.document.key.namespace, due.event.event.event_type.as_str()))
            .collect();
        let mut works = Vec::new();
        for (namespace, event_type) in types {
            let prefix = format!("{event_type}/");
            let mut cursor = None;
            loop {
                let listed =
                    self.store.list_documents(namespace, TRIGGER_KIND, &prefix, cursor, PAGE_MAX).await?;
                for entry in listed.items {
                    // The index entry may be stale: the schedule's own trigger decides.
                    let key = Stored::key(namespace, &entry.key.id[prefix.len()..]);
                    let document = match self.store.get_document(&key).await {
                        Ok(Some(document)) => document,
                        Ok(None) => continue,
                        // An unreadable schedule must not block the others.
                        Err(error @ StoreError::Damaged { .. }) => {
                            tracing::error!(%error, "unreadable schedule skipped");
                            continue;
                        }
                        Err(error) => return Err(error.into()),
                    };
                    works.extend(Work::open(&document).ok().filter(|work| waits_for(work, event_type)));
                }
                cursor = listed.next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(works)
    }

    /// Schedules with a concurrency policy decide as they do about fires. Returns the events that are not
    /// decided yet.
    async fn decide_guarded(
        &self,
        works: Vec<Work>,
        due: &[Due],
        cached: &Events,
        now: Timestamp,
        ticked: &mut Ticked,
    ) -> Result<HashSet<DocumentKey>> {
        let mut not_yet = HashSet::new();
        if works.is_empty() {
            return Ok(not_yet);
        }
        let live = self.live(&works).await?;
        // Read after the schedules: a decided event that is not in here has been marked as processed.
        let open = self.store.due_documents(EVENT_KIND, Timestamp::MAX, PAGE_MAX).await?;
        let is_all = open.len() < PAGE_MAX as usize;
        let open: HashSet<DocumentKey> = open.into_iter().map(|document| document.key).collect();
        let (mut decided, mut asked) = (Vec::new(), BTreeMap::new());
        for mut work in works {
            let wanted = events_of(&work, due);
            let space = work.key.namespace.clone();
            let key = |id: &String| DocumentKey::new(space.clone(), EVENT_KIND, id.as_str());
            let known = &mut work.stored.state.decided_events;
            if is_all {
                known.retain(|id| open.contains(&key(id)));
            }
            let fresh: Vec<String> = wanted.into_iter().filter(|id| !known.contains(id)).collect();
            if fresh.is_empty() {
                continue;
            }
            let is_full = known.len() >= DECIDED_MAX;
            if work.stored.state.is_unfinished() || is_full {
                not_yet.extend(fresh.iter().map(key));
                continue;
            }
            let of = live.get(&work.key).cloned().unwrap_or_default();
            decide::events(&mut work, &fresh, &of, now);
            asked.insert(work.key.clone(), fresh.iter().map(key).collect::<Vec<_>>());
            decided.push(work);
        }
        let (won, lost) = self.save(decided).await?;
        ticked.lost += lost.len();
        not_yet.extend(lost.iter().filter_map(|work| asked.remove(&work.key)).flatten());
        ticked.runs += self.finish(won, cached).await?.len();
        Ok(not_yet)
    }

    /// Schedules that allow concurrent runs have nothing to decide: one run per event, by its key.
    async fn run_plain(
        &self,
        works: Vec<Work>,
        due: &[Due],
        cached: &Events,
        ticked: &mut Ticked,
    ) -> Result<()> {
        let mut asked = Vec::new();
        for mut work in works {
            let name = work.name().to_owned();
            let run =
                |id: String| PendingRun { key: event_key(&name, &id), scheduled_for: None, event: Some(id) };
            // Only in memory: unfinished decisions in the document are left to `finish`.
            work.stored.state.pending = events_of(&work, due).into_iter().map(run).collect();
            work.stored.state.notices.clear();
            asked.push(work);
        }
        ticked.runs += self.make_runs(&mut asked, cached).await?;
        Ok(())
    }

    async fn mark_processed(&self, due: Vec<Due>, now: Timestamp, ticked: &mut Ticked) -> Result<()> {
        let mut writes = Vec::with_capacity(due.len());
        for Due { document, mut event } in due {
            event.processed_at = Some(now);
            let body = event.body(&document.key.id)?;
            // Without a due time: an event is due only until it is processed.
            writes.push(DocumentWrite::put(document.key, body, Expect::Version(document.version), None));
        }
        for answer in self.write_all(writes).await? {
            match answer {
                Ok(_) => ticked.events += 1,
                Err(StoreError::Conflict { .. }) => ticked.lost += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn waits_for(work: &Work, event_type: &str) -> bool {
    let spec = &work.stored.spec;
    spec.enabled && matches!(&spec.trigger, Trigger::Event { event_type: wanted } if wanted == event_type)
}

/// The ids of the events that match a schedule's trigger, in their order.
fn events_of(work: &Work, due: &[Due]) -> Vec<String> {
    let matches = |due: &&Due| {
        due.document.key.namespace == work.key.namespace && waits_for(work, &due.event.event.event_type)
    };
    due.iter().filter(matches).map(|due| due.document.key.id.clone()).collect()
}

/// How many of the first events one tick can create the runs of; at least one.
fn fitting(due: &[Due], waiting: &[Work]) -> usize {
    let mut waiters: HashMap<(&Namespace, &str), usize> = HashMap::new();
    for work in waiting {
        if let Trigger::Event { event_type } = &work.stored.spec.trigger {
            *waiters.entry((&work.key.namespace, event_type)).or_default() += 1;
        }
    }
    let mut runs = 0;
    for (index, due) in due.iter().enumerate() {
        let of = (&due.document.key.namespace, due.event.event.event_type.as_str());
        runs += waiters.get(&of).copied().unwrap_or_default();
        if runs > RUNS_PER_TICK_MAX {
            return index.max(1);
        }
    }
    due.len()
}
