//! Events: each schedule with a matching event trigger creates one run per event.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weaver_core::error::Error as StoreError;
use weaver_core::id::Version;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Document, DocumentKey, DocumentWrite, Expect, Page};
use weaver_core::time::Timestamp;

use crate::definition::{EVENT_TYPE_MAX_BYTES, check_text};
use crate::error::{InvalidField, Result, SchedulerError};
use crate::service::{Scheduler, readable};

/// The kind of the documents that store events.
pub const EVENT_KIND: &str = "event";
/// The kind of the documents that index events by their end of retention.
pub const EXPIRY_KIND: &str = "event_expiry";
/// The longest deduplication key, in bytes: it is part of the idempotency keys of runs.
pub const DEDUPE_KEY_MAX_BYTES: usize = 160;
/// The largest payload of an event, in bytes of JSON.
pub const EVENT_PAYLOAD_MAX_BYTES: usize = 64 * 1024;
/// The most events per call of [`emit_all`](Scheduler::emit_all).
pub const EMIT_MAX: usize = 1000;

/// An event to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// Matched exactly by event triggers; at most 100 bytes.
    pub event_type: String,
    /// Any JSON, at most [`EVENT_PAYLOAD_MAX_BYTES`].
    #[serde(default)]
    pub payload: Value,
    /// A second event with this key in the namespace is ignored during the first one's retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
}

impl NewEvent {
    /// An event without a payload.
    pub fn new(event_type: impl Into<String>) -> Self {
        Self { event_type: event_type.into(), payload: Value::Null, dedupe_key: None }
    }

    /// Sets the payload; default `null`.
    #[must_use]
    pub fn payload(self, payload: Value) -> Self {
        Self { payload, ..self }
    }

    /// Sets the deduplication key; default none.
    #[must_use]
    pub fn dedupe_key(self, key: impl Into<String>) -> Self {
        Self { dedupe_key: Some(key.into()), ..self }
    }

    fn check(&self) -> Result<()> {
        check_text("event_type", &self.event_type, EVENT_TYPE_MAX_BYTES)?;
        if let Some(key) = &self.dedupe_key {
            check_text("dedupe_key", key, DEDUPE_KEY_MAX_BYTES)?;
        }
        let bytes = self.payload.to_string().len();
        if bytes > EVENT_PAYLOAD_MAX_BYTES {
            let problem = format!("it has {bytes} bytes as JSON; the limit is {EVENT_PAYLOAD_MAX_BYTES}");
            return Err(InvalidField::error("payload", problem, "store it elsewhere and give a reference"));
        }
        Ok(())
    }
}

/// The result of emitting an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Emitted {
    /// The deduplication key if there is one, otherwise generated.
    pub id: String,
    /// Whether an event with this key existed, so that this one was ignored.
    pub existing: bool,
}

/// A stored event; it is kept for `events.retention_hours` after it was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Only schedules of this namespace see it.
    pub namespace: Namespace,
    /// Unique in its namespace; equal to `dedupe_key` if there is one.
    pub id: String,
    /// Matched exactly by event triggers.
    pub event_type: String,
    /// As it was emitted.
    pub payload: Value,
    /// As it was emitted.
    pub dedupe_key: Option<String>,
    /// When it was stored, by the clock of the node that stored it.
    pub created_at: Timestamp,
    /// When the runs of all matching schedules had been created; `None`: not yet.
    pub processed_at: Option<Timestamp>,
}

/// The body of an event's document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredEvent {
    pub(crate) event: NewEvent,
    pub(crate) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) processed_at: Option<Timestamp>,
}

impl StoredEvent {
    pub(crate) fn read(document: &Document) -> Result<Self> {
        serde_json::from_slice(&document.body).map_err(|error| unreadable(&document.key.id, &error))
    }

    pub(crate) fn body(&self, id: &str) -> Result<Bytes> {
        serde_json::to_vec(self).map(Bytes::from).map_err(|error| unreadable(id, &error))
    }
}

impl Scheduler {
    /// Stores an event. Every enabled schedule with a matching trigger then creates one run.
    pub async fn emit(&self, namespace: &Namespace, event: NewEvent) -> Result<Emitted> {
        let mut emitted = self.emit_all(namespace, vec![event]).await?;
        emitted.pop().ok_or_else(|| SchedulerError::Busy { what: "the event".to_owned() })
    }

    /// Stores at most [`EMIT_MAX`] events; none if one is invalid. The results are in the same order.
    pub async fn emit_all(&self, namespace: &Namespace, events: Vec<NewEvent>) -> Result<Vec<Emitted>> {
        if events.len() > EMIT_MAX {
            let problem = format!("{} events exceed the limit of {EMIT_MAX} per call", events.len());
            return Err(InvalidField::error("events", problem, "split them into several calls"));
        }
        events.iter().try_for_each(NewEvent::check)?;
        let now = self.clock.now();
        let expires_at = Some(now.saturating_add(self.settings.current().events_retention));
        let (mut writes, mut expiries, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut first: HashMap<String, usize> = HashMap::new();
        for event in events {
            let id = event.dedupe_key.clone().unwrap_or_else(|| self.event_id());
            if !first.contains_key(&id) {
                first.insert(id.clone(), ids.len());
                let body = StoredEvent { event, created_at: now, processed_at: None }.body(&id)?;
                let key = |kind| DocumentKey::new(namespace.clone(), kind, id.as_str());
                writes.push(DocumentWrite::put(key(EVENT_KIND), body, Expect::Absent, Some(now)));
                let body = Bytes::from(now.to_string());
                expiries.push(DocumentWrite::put(key(EXPIRY_KIND), body, Expect::Absent, expires_at));
            }
            ids.push(id);
        }
        // Before the events: an event without an expiry would never be removed.
        for answer in self.store.write_documents(expiries).await? {
            is_new(answer)?;
        }
        let answers = self.store.write_documents(writes).await?;
        let are_new = answers.into_iter().map(is_new).collect::<Result<Vec<_>>>()?;
        self.changed.notify_one();
        let mut are_new = are_new.into_iter();
        let emitted = ids.into_iter().enumerate().map(|(index, id)| {
            let is_first = first.get(&id) == Some(&index);
            let existing = !(is_first && are_new.next().unwrap_or_default());
            Emitted { id, existing }
        });
        Ok(emitted.collect())
    }

    /// Reads an event; `None` if it was never emitted or its retention has ended.
    pub async fn event(&self, namespace: &Namespace, id: &str) -> Result<Option<Event>> {
        let key = DocumentKey::new(namespace.clone(), EVENT_KIND, id);
        if key.validate().is_err() {
            return Ok(None);
        }
        self.store.get_document(&key).await?.as_ref().map(event_of).transpose()
    }

    /// The events of a namespace in the order of ids; unreadable ones are omitted.
    pub async fn events(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Event>> {
        let page = self.store.list_documents(namespace, EVENT_KIND, "", cursor, limit).await?;
        let items = page.items.iter().filter_map(|document| readable(event_of(document))).collect();
        Ok(Page { items, next: page.next, complete: page.complete })
    }

    /// Time first, so that lists are in order; node and number make it unique.
    fn event_id(&self) -> String {
        let number = self.emitted.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{}-{number}", self.clock.now().as_micros(), self.node)
    }
}

/// Whether a write with [`Expect::Absent`] was applied.
fn is_new(answer: Result<Option<Version>, StoreError>) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn event_of(document: &Document) -> Result<Event> {
    let StoredEvent { event, created_at, processed_at } = StoredEvent::read(document)?;
    Ok(Event {
        namespace: document.key.namespace.clone(),
        id: document.key.id.clone(),
        event_type: event.event_type,
        payload: event.payload,
        dedupe_key: event.dedupe_key,
        created_at,
        processed_at,
    })
}

fn unreadable(id: &str, error: &serde_json::Error) -> SchedulerError {
    SchedulerError::Unreadable { what: format!("event `{id}`"), reason: error.to_string() }
}
