//! Settings of the whole installation, in the store: changed at run time, on every node, without a restart.

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

/// The kind of the documents that settings are.
pub const SETTING_KIND: &str = "setting";

/// The settings. Clones are one and the same.
#[derive(Clone)]
pub struct Settings {
    store: Arc<dyn Store>,
    current: Arc<watch::Sender<Arc<Snapshot>>>,
}

/// A setting as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Its name.
    pub key: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// What can be set.
    pub accepts: String,
    /// What holds.
    pub value: Value,
    /// What holds if nothing is set.
    pub default: Value,
    /// Grows with every change; 0: never set.
    pub version: Version,
    /// When it was set.
    pub updated_at: Option<Timestamp>,
}

/// A change that was made: what an audit needs to know.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingChange {
    /// Its name.
    pub key: &'static str,
    /// What held before.
    pub before: Value,
    /// What holds now.
    pub after: Value,
    /// Its version now; 0: it is not set any more.
    pub version: Version,
}

impl Settings {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, current: Arc::new(watch::Sender::new(Arc::default())) }
    }

    /// What holds on this node, as of the last [`reload`](Settings::reload).
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    /// Hears of every change, on this node at once and of other nodes' with the next reload.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }

    /// All settings, by name.
    pub async fn list(&self) -> Result<Vec<Setting>> {
        let page = self.store.list_documents(&Namespace::internal(), SETTING_KIND, "", None, 1000).await?;
        let find = |known: &'static Known| {
            let document = page.items.iter().find(|document| document.key.id == known.key);
            let value = document.and_then(|document| serde_json::from_slice(&document.body).ok());
            Setting {
                key: known.key,
                about: known.about,
                accepts: known.accepts.to_string(),
                // A value an older or newer version wrote may not be one here: the default holds.
                value: value.filter(|value| known.check(value).is_ok()).unwrap_or_else(|| known.default()),
                default: known.default(),
                version: document.map(|document| document.version).unwrap_or_default(),
                updated_at: document.map(|document| document.updated_at),
            }
        };
        Ok(KNOWN.iter().map(find).collect())
    }

    /// One setting.
    pub async fn get(&self, key: &str) -> Result<Setting> {
        let known = known::find(key)?;
        let found = self.list().await?.into_iter().find(|setting| setting.key == known.key);
        found.ok_or_else(|| known::unknown(key))
    }

    /// Changes a setting, if it is still the version the caller read (any, if none is given).
    pub async fn put(&self, key: &str, value: Value, expected: Option<Version>) -> Result<SettingChange> {
        let known = known::find(key)?;
        known.check(&value)?;
        self.change(known, Some(value), expected).await
    }

    /// Back to the default.
    pub async fn reset(&self, key: &str, expected: Option<Version>) -> Result<SettingChange> {
        self.change(known::find(key)?, None, expected).await
    }

    /// Reads what others have changed.
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
