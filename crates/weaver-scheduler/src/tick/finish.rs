//! Carrying out decisions. Each step is idempotent: this or another node can repeat it.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use weaver_core::error::{Error as StoreError, Invalid};
use weaver_core::id::TaskKey;
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, StreamKey};
use weaver_core::queue::{Committed, Enqueued};
use weaver_core::task::NewTask;

use super::decide::note;
use super::work::Work;
use crate::definition::{NOTICES_STREAM, Notice, NoticeKind};
use crate::error::Result;
use crate::event::{EVENT_KIND, StoredEvent};
use crate::run::{RunEvent, task_of};
use crate::service::Scheduler;

/// Runs per enqueue call: on PostgreSQL each takes two advisory locks of a few thousand.
const ENQUEUE_MAX: usize = 250;
/// Entries per append: far below its limit in bytes.
const APPEND_MAX: usize = 500;
/// Optimistic-concurrency retries of a cancellation.
const CANCEL_TRIES: usize = 4;

/// Events that were read already.
pub(super) type Events = HashMap<DocumentKey, RunEvent>;

/// An enqueued run, by its idempotency key.
pub(super) type Made = (String, TaskKey);

impl Scheduler {
    /// Carries out the decisions about these schedules, and stores that they are finished.
    pub(super) async fn finish(&self, mut works: Vec<Work>, events: &Events) -> Result<Vec<Made>> {
        if works.is_empty() {
            return Ok(Vec::new());
        }
        self.cancel_replaced(&works).await?;
        let made = self.enqueue_pending(&mut works, events).await?;
        self.append_notices(&works).await?;
        let unfinished: Vec<Work> = works
            .into_iter()
            .map(|mut work| {
                let state = &mut work.stored.state;
                for run in std::mem::take(&mut state.pending) {
                    if let Some(task) = made.get(&(work.key.clone(), run.key)) {
                        state.push_run(task.id);
                    }
                }
                state.replaces.clear();
                state.notices.clear();
                work
            })
            .collect();
        // On a conflict, another node has written the same, or a client has edited the schedule; then it is
        // finished once more.
        let _ = self.save(unfinished).await?;
        Ok(made.into_iter().map(|((_, run), task)| (run, task)).collect())
    }

    /// Enqueues pending runs that are not stored in their schedules' documents.
    pub(super) async fn make_runs(&self, works: &mut [Work], events: &Events) -> Result<usize> {
        let made = self.enqueue_pending(works, events).await?.len();
        self.append_notices(works).await?;
        Ok(made)
    }

    /// Cancels replaced runs before the new ones are enqueued.
    async fn cancel_replaced(&self, works: &[Work]) -> Result<()> {
        let replaced = |work: &Work| {
            let namespace = work.key.namespace.clone();
            let keys = work.stored.state.replaces.iter();
            keys.map(move |run| TaskKey::new(namespace.clone(), *run)).collect::<Vec<_>>()
        };
        let mut keys: Vec<TaskKey> = works.iter().flat_map(replaced).collect();
        for _ in 0..CANCEL_TRIES {
            if keys.is_empty() {
                return Ok(());
            }
            let records = self.store.get_tasks(&keys).await?.into_iter().flatten();
            // Runs that ended meanwhile need no cancellation.
            let moves: Vec<_> = records
                .filter_map(|record| decide(&record, Command::Replace, record.updated_at).ok())
                .collect();
            keys = moves.iter().map(|transition| transition.key.clone()).collect();
            let answers = self.store.commit(moves, None).await?;
            let mut answers = answers.iter();
            keys.retain(|_| matches!(answers.next(), Some(Committed::Stale | Committed::Blocked(_))));
        }
        match keys.into_iter().next() {
            None => Ok(()),
            Some(key) => Err(StoreError::Stale { key }.into()),
        }
    }

    /// Enqueues pending runs. A run that the store refuses as invalid is dropped with a notice, so that it
    /// does not block the others; it was valid when its schedule was written.
    async fn enqueue_pending(
        &self,
        works: &mut [Work],
        events: &Events,
    ) -> Result<HashMap<(DocumentKey, String), TaskKey>> {
        let mut wanted: Vec<(usize, String, NewTask)> = Vec::new();
        for (index, work) in works.iter().enumerate() {
            for run in &work.stored.state.pending {
                let event = match &run.event {
                    None => None,
                    Some(id) => Some(self.cached_event(&work.key.namespace, id, events).await?),
                };
                let template = &work.stored.spec.task;
                let mut task = task_of(work.name(), template, run.scheduled_for, event.as_ref(), &run.key)?;
                if let Some(dispatch) = work.stored.spec.dispatch {
                    task = task.dispatch(dispatch);
                }
                wanted.push((index, run.key.clone(), task.namespace(&work.key.namespace)));
            }
        }
        let mut made = HashMap::new();
        while !wanted.is_empty() {
            let rest = wanted.split_off(wanted.len().min(ENQUEUE_MAX));
            let tasks = wanted.iter().map(|(_, _, task)| task.clone()).collect();
            match self.store.enqueue_batch(tasks).await {
                Ok(answers) => {
                    for ((index, run, _), answer) in wanted.into_iter().zip(answers) {
                        let Enqueued { key, .. } = answer?;
                        made.insert((works[index].key.clone(), run), key);
                    }
                    wanted = rest;
                }
                Err(StoreError::Invalid(Invalid { index: Some(at), field, problem }))
                    if at < wanted.len() =>
                {
                    let (index, run, _) = wanted.remove(at);
                    refuse(&mut works[index], &run, &format!("{field} {problem}"), self.clock.now());
                    wanted.extend(rest);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(made)
    }

    async fn cached_event(&self, namespace: &Namespace, id: &str, events: &Events) -> Result<RunEvent> {
        let key = DocumentKey::new(namespace.clone(), EVENT_KIND, id);
        if let Some(event) = events.get(&key) {
            return Ok(event.clone());
        }
        let none =
            RunEvent { id: id.to_owned(), event_type: String::new(), payload: serde_json::Value::Null };
        match self.store.get_document(&key).await? {
            Some(document) => Ok(run_event(id, StoredEvent::read(&document)?)),
            // The event was deleted since the decision: the run still gets its id.
            None => Ok(none),
        }
    }

    async fn append_notices(&self, works: &[Work]) -> Result<()> {
        let mut by_namespace: BTreeMap<&Namespace, Vec<&Notice>> = BTreeMap::new();
        for work in works.iter().filter(|work| !work.stored.state.notices.is_empty()) {
            by_namespace.entry(&work.key.namespace).or_default().extend(&work.stored.state.notices);
        }
        for (namespace, notices) in by_namespace {
            for notice in &notices {
                let Notice { definition, count, reason, .. } = notice;
                tracing::warn!(%namespace, schedule = %definition, count, "{reason}");
            }
            let entries: Vec<Bytes> = notices
                .iter()
                .filter_map(|notice| serde_json::to_vec(notice).ok().map(Bytes::from))
                .collect();
            let stream = StreamKey::new(namespace.clone(), NOTICES_STREAM);
            for entries in entries.chunks(APPEND_MAX) {
                self.store.append_entries(&stream, entries).await?;
            }
            self.noticed.lock().insert(namespace.clone());
        }
        Ok(())
    }
}

/// An event as the run's handler gets it.
pub(super) fn run_event(id: &str, StoredEvent { event, .. }: StoredEvent) -> RunEvent {
    RunEvent { id: id.to_owned(), event_type: event.event_type, payload: event.payload }
}

fn refuse(work: &mut Work, run: &str, problem: &str, now: weaver_core::time::Timestamp) {
    work.stored.state.pending.retain(|pending| pending.key != run);
    let reason = format!("the store refused the task: {problem}; edit the schedule");
    note(work, now, NoticeKind::Refused, 1, true, reason);
}
