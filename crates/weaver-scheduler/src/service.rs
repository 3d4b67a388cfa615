//! The scheduler over a store: managing schedules.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::error::Error as StoreError;
use weaver_core::id::{TaskKey, Version};
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Document, DocumentKey, Expect, Page, Store};
use weaver_core::time::Timestamp;

use crate::calendar::Schedule;
use crate::definition::{DEFINITION_KIND, Definition, DefinitionSpec, Stored, TRIGGER_KIND, Trigger, check};
use crate::error::{Result, SchedulerError};
use crate::settings::Settings;
use crate::tick::UnreadableDocuments;

/// Optimistic-concurrency retries of a change that conflicts with a fire.
pub(crate) const TRIES_MAX: usize = 16;

/// Options of a scheduler.
#[derive(Debug, Clone)]
pub struct Options {
    /// Unique over all nodes and restarts, at most 32 bytes: it is part of event ids.
    pub node: String,
}

/// Schedules, events and settings over a store. Any number of schedulers may share a store; clones share one
/// scheduler.
#[derive(Clone)]
pub struct Scheduler {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) node: Arc<str>,
    pub(crate) emitted: Arc<AtomicU64>,
    /// Namespaces in which this node has written notices, whose old notices it removes.
    pub(crate) noticed: Arc<Mutex<BTreeSet<Namespace>>>,
    /// Documents that this node cannot decode.
    pub(crate) unreadable: Arc<UnreadableDocuments>,
    /// Wakes [`run`](Scheduler::run) after a change on this node.
    pub(crate) changed: Arc<Notify>,
}

impl Scheduler {
    /// Creates a scheduler; it does nothing before [`tick`](Scheduler::tick) or [`run`](Scheduler::run).
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self {
            settings: Settings::new(Arc::clone(&store)),
            store,
            clock,
            node: options.node.into(),
            emitted: Arc::default(),
            noticed: Arc::default(),
            unreadable: Arc::default(),
            changed: Arc::default(),
        }
    }

    /// The settings, which are shared by all nodes and namespaces.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Adds a schedule; [`SchedulerError::Exists`] if the name is taken.
    pub async fn add(&self, namespace: &Namespace, name: &str, spec: DefinitionSpec) -> Result<Definition> {
        let schedule = check(name, &spec, &self.store.limits())?;
        let now = self.clock.now();
        let mut stored = Stored::new(spec, now);
        stored.state.next_fire_at = first_fire(&stored.spec, schedule.as_ref(), now)?;
        self.put_trigger(namespace, name, &stored.spec).await?;
        let key = Stored::key(namespace, name);
        match self.write(&key, &stored, Expect::Absent).await {
            Err(SchedulerError::Store(StoreError::Conflict { .. })) => {
                let found = self.get(namespace, name).await?;
                Err(SchedulerError::Exists { name: name.to_owned(), version: found.version })
            }
            answer => answer,
        }
    }

    /// Reads a schedule; [`SchedulerError::NotFound`] if there is none.
    pub async fn get(&self, namespace: &Namespace, name: &str) -> Result<Definition> {
        let document = self.read(namespace, name).await?;
        definition_of(&document)
    }

    /// The schedules of a namespace whose name starts with `prefix`, by name. An unreadable one is omitted
    /// and logged; [`get`](Scheduler::get) returns its error.
    pub async fn list(
        &self,
        namespace: &Namespace,
        prefix: &str,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Definition>> {
        let page = self.store.list_documents(namespace, DEFINITION_KIND, prefix, cursor, limit).await?;
        let items = page.items.iter().filter_map(|document| readable(definition_of(document))).collect();
        Ok(Page { items, next: page.next, complete: page.complete })
    }

    /// Replaces a schedule's specification if it still has the version the caller read. A fire that is due is
    /// not lost; one that is not due yet is planned again.
    pub async fn edit(
        &self,
        namespace: &Namespace,
        name: &str,
        expected: Version,
        spec: DefinitionSpec,
    ) -> Result<Definition> {
        let schedule = check(name, &spec, &self.store.limits())?;
        self.put_trigger(namespace, name, &spec).await?;
        let change = |stored: &mut Stored, now| {
            let due_already = stored.spec.enabled
                && matches!(spec.trigger, Trigger::Time(_))
                && stored.state.next_fire_at.is_some_and(|next| next <= now);
            if !(spec.enabled && due_already) {
                stored.state.next_fire_at = first_fire(&spec, schedule.as_ref(), now)?;
            }
            stored.spec = spec.clone();
            Ok(())
        };
        self.change(namespace, name, Some(expected), change).await
    }

    /// Enables a schedule from now on: there is no catch-up for the time it was disabled.
    pub async fn enable(
        &self,
        namespace: &Namespace,
        name: &str,
        expected: Option<Version>,
    ) -> Result<Definition> {
        let change = |stored: &mut Stored, now| {
            if stored.spec.enabled {
                return Ok(());
            }
            let schedule = check(name, &stored.spec, &self.store.limits())?;
            stored.spec.enabled = true;
            stored.state.next_fire_at = first_fire(&stored.spec, schedule.as_ref(), now)?;
            Ok(())
        };
        self.change(namespace, name, expected, change).await
    }

    /// Disables a schedule. Runs that it already created are not affected.
    pub async fn disable(
        &self,
        namespace: &Namespace,
        name: &str,
        expected: Option<Version>,
    ) -> Result<Definition> {
        let change = |stored: &mut Stored, _| {
            stored.spec.enabled = false;
            stored.state.next_fire_at = None;
            Ok(())
        };
        self.change(namespace, name, expected, change).await
    }

    /// Removes a schedule. Its runs stay.
    pub async fn remove(&self, namespace: &Namespace, name: &str, expected: Option<Version>) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let document = self.read(namespace, name).await?;
            if let Some(expected) = expected {
                is_expected(&document, expected)?;
            }
            match self.store.delete_document(&document.key, Expect::Version(document.version)).await {
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    // After the schedule: an index entry without a schedule is harmless, a schedule without
                    // an entry would miss events.
                    if let Ok(Stored { spec, .. }) = Stored::read(&document)
                        && let Some(key) = trigger_key(namespace, name, &spec)
                    {
                        self.store.delete_document(&key, Expect::Anything).await?;
                    }
                    return Ok(());
                }
            }
        }
        Err(busy(name))
    }

    /// Validates a schedule as [`add`](Scheduler::add) and [`edit`](Scheduler::edit) do, and stores nothing.
    pub fn check(&self, name: &str, spec: &DefinitionSpec) -> Result<()> {
        check(name, spec, &self.store.limits()).map(drop)
    }

    /// The schedules of a namespace that fire next, soonest first. Only the next `scan_max` of all namespaces
    /// are scanned, so some are missing if other namespaces are busier.
    pub async fn upcoming(&self, namespace: &Namespace, scan_max: u32) -> Result<Vec<Definition>> {
        let far = Timestamp::MAX;
        let due = self.store.due_documents(DEFINITION_KIND, far, scan_max).await?;
        let ours = due.iter().filter(|document| document.key.namespace == *namespace);
        let mut found: Vec<_> = ours.filter_map(|document| readable(definition_of(document))).collect();
        // A document with an unfinished decision is due soon as well: that is not its next fire.
        found.retain(|definition| definition.next_fire_at.is_some());
        found.sort_by_key(|definition| definition.next_fire_at);
        Ok(found)
    }

    /// Creates a run now, whether or not the schedule is enabled. The concurrency policy applies:
    /// [`SchedulerError::StillRunning`] if it forbids another run. After an error of the store the run may
    /// still be created, once.
    pub async fn run_now(&self, namespace: &Namespace, name: &str) -> Result<TaskKey> {
        self.run_manually(namespace, name).await
    }

    pub(crate) async fn read(&self, namespace: &Namespace, name: &str) -> Result<Document> {
        let key = Stored::key(namespace, name);
        let not_found = || SchedulerError::NotFound { namespace: namespace.clone(), name: name.to_owned() };
        if key.validate().is_err() {
            return Err(not_found());
        }
        self.store.get_document(&key).await?.ok_or_else(not_found)
    }

    /// A change by a client: retried if it conflicts with a fire, refused if another client changed the
    /// schedule.
    async fn change(
        &self,
        namespace: &Namespace,
        name: &str,
        expected: Option<Version>,
        change: impl Fn(&mut Stored, Timestamp) -> Result<()>,
    ) -> Result<Definition> {
        for _ in 0..TRIES_MAX {
            let document = self.read(namespace, name).await?;
            if let Some(expected) = expected {
                is_expected(&document, expected)?;
            }
            let mut stored = Stored::read(&document)?;
            let before = stored.clone();
            change(&mut stored, self.clock.now())?;
            if stored == before {
                return definition_of(&document);
            }
            stored.version = None;
            match self.write(&document.key, &stored, Expect::Version(document.version)).await {
                Err(SchedulerError::Store(StoreError::Conflict { .. })) => {}
                Ok(definition) => {
                    self.drop_trigger(namespace, name, &before.spec, &stored.spec).await?;
                    return Ok(definition);
                }
                Err(error) => return Err(error),
            }
        }
        Err(busy(name))
    }

    pub(crate) async fn write(
        &self,
        key: &DocumentKey,
        stored: &Stored,
        expect: Expect,
    ) -> Result<Definition> {
        let now = self.clock.now();
        let version = self.store.put_document(key, stored.body()?, expect, stored.due(now)).await?;
        self.changed.notify_one();
        Ok(stored.clone().definition(key, version, now))
    }

    /// Written before the schedule, so that no event of its type can miss it.
    async fn put_trigger(&self, namespace: &Namespace, name: &str, spec: &DefinitionSpec) -> Result<()> {
        if let Some(key) = trigger_key(namespace, name, spec) {
            let body = Bytes::from(name.to_owned());
            self.store.put_document(&key, body, Expect::Anything, None).await?;
        }
        Ok(())
    }

    async fn drop_trigger(
        &self,
        namespace: &Namespace,
        name: &str,
        before: &DefinitionSpec,
        after: &DefinitionSpec,
    ) -> Result<()> {
        let kept = trigger_key(namespace, name, after);
        match trigger_key(namespace, name, before) {
            Some(key) if Some(&key) != kept.as_ref() => {
                Ok(self.store.delete_document(&key, Expect::Anything).await?)
            }
            _ => Ok(()),
        }
    }
}

fn trigger_key(namespace: &Namespace, name: &str, spec: &DefinitionSpec) -> Option<DocumentKey> {
    match &spec.trigger {
        Trigger::Time(_) => None,
        Trigger::Event { event_type } => {
            Some(DocumentKey::new(namespace.clone(), TRIGGER_KIND, format!("{event_type}/{name}")))
        }
    }
}

/// The first fire from now on. An enabled schedule without any is refused as a mistake.
fn first_fire(
    spec: &DefinitionSpec,
    schedule: Option<&Schedule>,
    now: Timestamp,
) -> Result<Option<Timestamp>> {
    let Some(schedule) = schedule else { return Ok(None) };
    let next = schedule.next_after(now).map(|fire| fire.at);
    if next.is_none() && spec.enabled {
        let problem = format!("`{}` never fires after {now}", schedule.spec().schedule.trim());
        return Err(crate::error::InvalidField::error("trigger.schedule", problem, "choose a future time"));
    }
    Ok(next.filter(|_| spec.enabled))
}

/// Omits an unreadable document from a list, so that it does not hide the others.
pub(crate) fn readable<T>(read: Result<T>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "unreadable document omitted from a list")).ok()
}

fn definition_of(document: &Document) -> Result<Definition> {
    Ok(Stored::read(document)?.definition(&document.key, document.version, document.updated_at))
}

fn is_expected(document: &Document, expected: Version) -> Result<()> {
    // An unreadable schedule has no version of its own: it can still be removed by the document's.
    let found = Stored::read(document).ok().and_then(|stored| stored.version).unwrap_or(document.version);
    if found == expected {
        return Ok(());
    }
    Err(SchedulerError::Stale { what: format!("schedule `{}`", document.key.id), expected, found })
}

pub(crate) fn busy(name: &str) -> SchedulerError {
    SchedulerError::Busy { what: format!("schedule `{name}`") }
}
