//! Events: something happened, and definitions that wait for it get a run, once each.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weaver_core::error::Error as StoreError;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Document, DocumentKey, Expect, Page};
use weaver_core::time::Timestamp;

use crate::definition::{EVENT_TYPE_MAX_BYTES, check_text};
use crate::error::{InvalidField, Result, SchedulerError};
use crate::service::Scheduler;

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
        event.check()?;
        let id = event.dedupe_key.clone().unwrap_or_else(|| self.event_id());
        let stored = StoredEvent { event, created_at: self.clock.now(), processed_at: None };
        let key = DocumentKey::new(namespace.clone(), EVENT_KIND, id.as_str());
        let put = self.store.put_document(&key, stored.body(&id)?, Expect::Absent, Some(stored.created_at));
        let existing = match put.await {
            Ok(_) => false,
            Err(StoreError::Conflict { .. }) => true,
            Err(error) => return Err(error.into()),
        };
        self.changed.notify_one();
        Ok(Emitted { id, existing })
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
        let items = page.items.iter().map(event_of).collect::<Result<Vec<_>>>()?;
        Ok(Page { items, next: page.next, complete: page.complete })
    }

    /// By time, so that lists are in order; by node and number, so that no two are the same.
    fn event_id(&self) -> String {
        let number = self.emitted.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{}-{number}", self.clock.now().as_micros(), self.node)
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
