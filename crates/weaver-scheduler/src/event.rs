//! Events: something happened, and definitions that wait for it get a run, once each.

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

/// The kind of the documents that events are.
pub const EVENT_KIND: &str = "event";
/// The kind of the documents by which old events are found.
pub const EXPIRY_KIND: &str = "event_expiry";
/// The longest key that makes an event unique: the keys of runs are made of it.
pub const DEDUPE_KEY_MAX_BYTES: usize = 160;
/// The largest payload of an event, as JSON.
pub const EVENT_PAYLOAD_MAX_BYTES: usize = 64 * 1024;
/// The most events of one call.
pub const EMIT_MAX: usize = 1000;

/// An event to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// What happened: definitions wait for exactly this.
    pub event_type: String,
    /// What there is to know about it.
    #[serde(default)]
    pub payload: Value,
    /// A second event with this key in the namespace is the first one, for as long as that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
}

impl NewEvent {
    /// An event without a payload.
    pub fn new(event_type: impl Into<String>) -> Self {
        Self { event_type: event_type.into(), payload: Value::Null, dedupe_key: None }
    }

    /// With this payload.
    #[must_use]
    pub fn payload(self, payload: Value) -> Self {
        Self { payload, ..self }
    }

    /// Once per key.
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
            let problem = format!("it is {bytes} bytes as JSON, and {EVENT_PAYLOAD_MAX_BYTES} are the limit");
            return Err(InvalidField::error("payload", problem, "store it elsewhere and give a reference"));
        }
        Ok(())
    }
}

/// The answer to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Emitted {
    /// Its id: its key, if it has one.
    pub id: String,
    /// Whether one with its key was there before, and this one changed nothing.
    pub existing: bool,
}

/// An event as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Where.
    pub namespace: Namespace,
    /// Its id.
    pub id: String,
    /// What happened.
    pub event_type: String,
    /// What there is to know about it.
    pub payload: Value,
    /// What makes it unique, if anything does.
    pub dedupe_key: Option<String>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When the definitions that wait for it had their runs; none: not yet.
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
    /// Stores an event. Definitions that wait for its type get a run each, soon and once.
    pub async fn emit(&self, namespace: &Namespace, event: NewEvent) -> Result<Emitted> {
        let mut emitted = self.emit_all(namespace, vec![event]).await?;
        emitted.pop().ok_or_else(|| SchedulerError::Busy { what: "the event".to_owned() })
    }

    /// Stores events, at most [`EMIT_MAX`]; if one is invalid, none. Answers in their order.
    pub async fn emit_all(&self, namespace: &Namespace, events: Vec<NewEvent>) -> Result<Vec<Emitted>> {
        if events.len() > EMIT_MAX {
            let problem = format!("{} events are more than the {EMIT_MAX} of one call", events.len());
            return Err(InvalidField::error("events", problem, "send them in several"));
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
        // Before the events: one that is stored and has no expiry would stay for ever.
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

    /// Reads an event; none if it never was, or is too old to be kept.
    pub async fn event(&self, namespace: &Namespace, id: &str) -> Result<Option<Event>> {
        let key = DocumentKey::new(namespace.clone(), EVENT_KIND, id);
        if key.validate().is_err() {
            return Ok(None);
        }
        self.store.get_document(&key).await?.as_ref().map(event_of).transpose()
    }

    /// The events of a namespace, by id.
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

    /// By time, so that lists are in order; by node and number, so that no two are the same.
    fn event_id(&self) -> String {
        let number = self.emitted.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{}-{number}", self.clock.now().as_micros(), self.node)
    }
}

/// Whether a write that expects nothing found nothing.
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
