//! Settings in the store: changed at run time, for every node, without a restart.

mod known;

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use weaver_core::error::Error as StoreError;
use weaver_core::id::Version;
use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect, Store};
use weaver_core::time::Timestamp;

pub use known::{KNOWN, Known, Snapshot, ValueType};

use crate::error::{Result, SchedulerError};

/// The kind of the documents that store settings.
pub const SETTING_KIND: &str = "setting";

/// The settings. Clones share one snapshot.
#[derive(Clone)]
pub struct Settings {
    store: Arc<dyn Store>,
    current: Arc<watch::Sender<Arc<Snapshot>>>,
}

/// A setting with its effective value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Its dotted name, like `scheduler.batch_max`.
    pub key: &'static str,
    /// One sentence for people, without a final stop.
    pub description: &'static str,
    /// The allowed values, for people: `a whole number between 1 and 1000`.
    pub allowed: String,
    /// The effective value; the default if the stored one is not allowed in this version.
    pub value: Value,
    /// The value if none is set.
    pub default: Value,
    /// Grows with every change; 0: not set.
    pub version: Version,
    /// When it was last set; `None`: not set.
    pub updated_at: Option<Timestamp>,
}

/// An applied change, as the audit log records it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingChange {
    /// Its dotted name, like `scheduler.batch_max`.
    pub key: &'static str,
    /// The effective value before the change.
    pub before: Value,
    /// The effective value after the change.
    pub after: Value,
    /// The version after the change; 0: it was reset.
    pub version: Version,
}

impl Settings {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, current: Arc::new(watch::Sender::new(Arc::default())) }
    }

    /// The effective values on this node, as of the last [`reload`](Settings::reload).
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    /// Receives every change: those of this node at once, those of other nodes with the next reload.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }

    /// All known settings in the order of keys.
    pub async fn list(&self) -> Result<Vec<Setting>> {
        let page = self.store.list_documents(&Namespace::internal(), SETTING_KIND, "", None, 1000).await?;
        let find = |known: &'static Known| {
            let document = page.items.iter().find(|document| document.key.id == known.key);
            let value = document.and_then(|document| serde_json::from_slice(&document.body).ok());
            Setting {
                key: known.key,
                description: known.description,
                allowed: known.allowed.to_string(),
                // A value of an older or newer version may not be allowed here: the default applies.
                value: value.filter(|value| known.check(value).is_ok()).unwrap_or_else(|| known.default()),
                default: known.default(),
                version: document.map(|document| document.version).unwrap_or_default(),
                updated_at: document.map(|document| document.updated_at),
            }
        };
        Ok(KNOWN.iter().map(find).collect())
    }

    /// One setting; [`SchedulerError::UnknownSetting`] if there is none.
    pub async fn get(&self, key: &str) -> Result<Setting> {
        let known = known::find(key)?;
        let found = self.list().await?.into_iter().find(|setting| setting.key == known.key);
        found.ok_or_else(|| known::unknown(key))
    }

    /// Sets a value if the setting still has the expected version; `None`: unconditionally.
    pub async fn put(&self, key: &str, value: Value, expected: Option<Version>) -> Result<SettingChange> {
        let known = known::find(key)?;
        known.check(&value)?;
        self.change(known, Some(value), expected).await
    }

    /// Resets a setting to its default, under the same condition as [`put`](Settings::put).
    pub async fn reset(&self, key: &str, expected: Option<Version>) -> Result<SettingChange> {
        self.change(known::find(key)?, None, expected).await
    }

    /// Reads the settings from the store, and notifies subscribers if they have changed.
    pub async fn reload(&self) -> Result<Arc<Snapshot>> {
        let snapshot = Arc::new(Snapshot::of(&self.list().await?));
        self.current.send_if_modified(|current| {
            let is_new = **current != *snapshot;
            if is_new {
                *current = Arc::clone(&snapshot);
            }
            is_new
        });
        Ok(snapshot)
    }

    async fn change(
        &self,
        known: &'static Known,
        value: Option<Value>,
        expected: Option<Version>,
    ) -> Result<SettingChange> {
        let before = self.get(known.key).await?;
        let expect = match expected {
            None => Expect::Anything,
            Some(Version(0)) => Expect::Absent,
            Some(version) => Expect::Version(version),
        };
        let document = DocumentKey::new(Namespace::internal(), SETTING_KIND, known.key);
        let written = match &value {
            Some(value) => {
                let body = Bytes::from(value.to_string());
                self.store.put_document(&document, body, expect, None).await
            }
            None => self.store.delete_document(&document, expect).await.map(|()| Version(0)),
        };
        let version = written.map_err(|error| match (error, expected) {
            (StoreError::Conflict { found, .. }, Some(expected)) => {
                SchedulerError::Stale { what: format!("setting `{}`", known.key), expected, found }
            }
            (error, _) => error.into(),
        })?;
        self.reload().await?;
        let after = value.unwrap_or_else(|| known.default());
        Ok(SettingChange { key: known.key, before: before.value, after, version })
    }
}
