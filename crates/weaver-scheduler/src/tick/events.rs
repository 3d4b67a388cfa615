//! Events become runs of the definitions that wait for them.

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

/// How many events a definition with an overlap policy may have decided and not yet seen marked.
const DECIDED_MAX: usize = 2000;

/// An event in hand.
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
        let in_hand: Events = due
            .iter()
            .map(|due| (due.document.key.clone(), run_event(&due.document.key.id, due.event.clone())))
            .collect();
        let (plain, guarded): (Vec<Work>, Vec<Work>) = waiting
            .into_iter()
            .partition(|work| work.stored.spec.concurrency_policy == ConcurrencyPolicy::Allow);
        let not_yet = self.decide_guarded(guarded, &due, &in_hand, now, ticked).await?;
        self.run_plain(plain, &due, &in_hand, ticked).await?;
        due.retain(|due| !not_yet.contains(&due.document.key));
        self.mark_processed(due, now, ticked).await?;
        // Not at once if none could be processed: what they wait for takes a moment.
        ticked.more |= is_more && ticked.events > 0;
        Ok(())
    }

    fn open_events(&self, documents: Vec<Document>) -> Vec<Due> {
        let open = |document: Document| match StoredEvent::read(&document) {
            Ok(event) => Some(Due { document, event }),
            Err(error) => {
                self.pass_over(&document, &error);
                None
            }
        };
        documents.into_iter().filter_map(open).collect()
    }

    /// The enabled definitions that wait for the types of these events.
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
                    // The entry only leads here: what the definition says counts.
                    let key = Stored::key(namespace, &entry.key.id[prefix.len()..]);
                    let document = match self.store.get_document(&key).await {
                        Ok(Some(document)) => document,
                        Ok(None) => continue,
                        // One that the store cannot read waits for nothing, and must not stop the others.
                        Err(error @ StoreError::Damaged { .. }) => {
                            tracing::error!(%error, "a schedule is passed over");
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

    /// Definitions with an overlap policy decide as they do about fires. Answers the events that are not
    /// decided.
    async fn decide_guarded(
        &self,
        works: Vec<Work>,
        due: &[Due],
        in_hand: &Events,
        now: Timestamp,
        ticked: &mut Ticked,
    ) -> Result<HashSet<DocumentKey>> {
        let mut not_yet = HashSet::new();
        if works.is_empty() {
            return Ok(not_yet);
        }
        let live = self.live(&works).await?;
        // Read after the definitions: what they decided about and is not in here is marked as processed.
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
        ticked.runs += self.finish(won, in_hand).await?.len();
        Ok(not_yet)
    }

    /// Definitions that let runs overlap have nothing to decide: one run per event, by its key.
    async fn run_plain(
        &self,
        works: Vec<Work>,
        due: &[Due],
        in_hand: &Events,
        ticked: &mut Ticked,
    ) -> Result<()> {
        let mut asked = Vec::new();
        for mut work in works {
            let name = work.name().to_owned();
            let run =
                |id: String| PendingRun { key: event_key(&name, &id), scheduled_for: None, event: Some(id) };
            // Beside what is decided and not done: that is none of ours.
            work.stored.state.pending = events_of(&work, due).into_iter().map(run).collect();
            work.stored.state.notices.clear();
            asked.push(work);
        }
        ticked.runs += self.make_runs(&mut asked, in_hand).await?;
        Ok(())
    }

    async fn mark_processed(&self, due: Vec<Due>, now: Timestamp, ticked: &mut Ticked) -> Result<()> {
        let mut writes = Vec::with_capacity(due.len());
        for Due { document, mut event } in due {
            event.processed_at = Some(now);
            let body = event.body(&document.key.id)?;
            // Without a due time: an event is due until it is processed.
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

/// The ids of the events a definition waits for, in the order they came.
fn events_of(work: &Work, due: &[Due]) -> Vec<String> {
    let matches = |due: &&Due| {
        due.document.key.namespace == work.key.namespace && waits_for(work, &due.event.event.event_type)
    };
    due.iter().filter(matches).map(|due| due.document.key.id.clone()).collect()
}

/// How many of the events, from the first, one tick can make the runs of; one at least.
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
