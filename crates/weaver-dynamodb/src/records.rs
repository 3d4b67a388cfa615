//! Reads and writes whole records.

use std::collections::HashMap;

use futures_util::future::try_join_all;
use weaver_core::error::{Error, Result};
use weaver_core::id::TaskKey;
use weaver_core::task::TaskRecord;

use crate::codec::record;
use crate::codec::texts::{self, Texts};
use crate::codec::value::{Attributes, b, n, s};
use crate::db::{Found, Item, Query, Table, Write};
use crate::keys;
use crate::store::{DynamoStore, Stored};
use crate::unreadable;

impl DynamoStore {
    /// Reads all pages of a query.
    pub(crate) async fn query_all(&self, query: Query) -> Result<Vec<Item>> {
        let (mut items, mut start) = (Vec::new(), None);
        loop {
            let Found { items: some, next } = self.db.query(query.clone().after(start)).await?;
            items.extend(some);
            match next {
                Some(next) => start = Some(next),
                None => return Ok(items),
            }
        }
    }

    /// The names of tasks: the id itself, or the name that another client chose, which is stored on adoption.
    pub(crate) async fn names_of(&self, tasks: &[TaskKey]) -> Result<HashMap<TaskKey, String>> {
        let mut names = HashMap::new();
        let mut unknown = Vec::new();
        {
            let known = self.names.lock();
            for task in tasks {
                if !task.id.is_foreign() {
                    names.insert(task.clone(), task.id.to_string());
                } else if let Some(name) = task.foreign_text() {
                    names.insert(task.clone(), name.to_owned());
                } else if let Some(name) = known.get(task) {
                    names.insert(task.clone(), name.clone());
                } else if !unknown.contains(task) {
                    unknown.push(task.clone());
                }
            }
        }
        if unknown.is_empty() {
            return Ok(names);
        }
        let wanted =
            unknown.iter().map(|task| keys::data(&keys::foreign(&task.namespace), &keys::padded(task.id.0)));
        for item in self.db.get(Table::Data, wanted.collect()).await? {
            let (partition, sort) =
                (item.text("pk").unwrap_or_default(), item.text("sk").unwrap_or_default());
            let of = |task: &&TaskKey| {
                keys::foreign(&task.namespace) == partition && keys::padded(task.id.0) == sort
            };
            if let (Some(task), Some(name)) = (unknown.iter().find(of), item.text("name")) {
                self.names.lock().insert(task.clone(), name.to_owned());
                names.insert(task.clone(), name.to_owned());
            }
        }
        Ok(names)
    }

    /// Reads tasks, strongly consistent; missing ones are omitted.
    pub(crate) async fn load(&self, tasks: &[TaskKey]) -> Result<HashMap<TaskKey, Stored>> {
        let names = self.names_of(tasks).await?;
        let mut wanted: Vec<_> = names.iter().collect();
        wanted.sort();
        let wanted =
            wanted.into_iter().map(|(task, name)| keys::task(&task.namespace, name)).collect::<Vec<_>>();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let items = self.db.get(Table::Queue, wanted).await?;
        self.forget_missing(tasks, &items);
        let read = self.read(items).await?;
        Ok(read.into_iter().map(|stored| (stored.record.key.clone(), stored)).collect())
    }

    /// Reads one task, strongly consistent; `None` if it is missing or unreadable.
    pub(crate) async fn load_one(&self, task: &TaskKey) -> Result<Option<Stored>> {
        Ok(self.load(std::slice::from_ref(task)).await?.remove(task))
    }

    /// Decodes items, with their large values. An item whose large values are missing is being purged and
    /// omitted; an unreadable one is quarantined and omitted.
    pub(crate) async fn read(&self, items: Vec<Item>) -> Result<Vec<Stored>> {
        let mut wanted = Vec::new();
        for item in &items {
            let references = texts::references(item);
            if let (false, Ok(key)) = (references.is_empty(), record::key_of(item)) {
                let partition = keys::texts(&key);
                wanted.extend(references.into_iter().map(|(_, sort)| keys::data(&partition, &sort)));
            }
        }
        let mut values = HashMap::new();
        if !wanted.is_empty() {
            for item in self.db.get(Table::Data, wanted).await? {
                let place = (item.text("pk").unwrap_or_default(), item.text("sk").unwrap_or_default());
                let place = (place.0.to_owned(), place.1.to_owned());
                values.insert(place, item.bytes("value").unwrap_or_default());
            }
        }
        let mut read = Vec::with_capacity(items.len());
        for item in items {
            let Ok(key) = record::key_of(&item) else {
                tracing::error!("skipped an item without a valid namespace or task_id");
                continue;
            };
            let partition = keys::texts(&key);
            let references = texts::references(&item);
            let large = references
                .iter()
                .map(|(name, sort)| Some((*name, values.get(&(partition.clone(), sort.clone()))?.clone())));
            if let Some(large) = large.collect::<Option<Texts>>() {
                match unreadable::read(&item, &large) {
                    Ok(record) => {
                        self.is_readable(&key);
                        read.push(Stored { item, record });
                    }
                    Err(why) => self.set_aside(&key, &item, why),
                }
            }
        }
        Ok(read)
    }

    /// Encodes a record and stores its large values; `old` is what it replaces.
    pub(crate) async fn prepare(&self, new: &TaskRecord, old: Option<&Stored>) -> Result<Item> {
        let base = old.map(|old| old.item.clone()).unwrap_or_default();
        let (mut item, large) = record::encode(new, base, self.now())?;
        let known = old.map(|old| texts::references(&old.item)).unwrap_or_default();
        let kept = |name: &str| {
            let old = &old?.record;
            let same = match name {
                "payload" => true, // It never changes.
                "result" => old.result == new.result,
                "error" => old.last_error == new.last_error,
                _ => old.attempts == new.attempts,
            };
            same.then(|| known.iter().find(|(known, _)| *known == name).map(|(_, sort)| sort.clone()))?
        };
        let (mut references, mut writes) = (Vec::new(), Vec::new());
        for (name, value) in large {
            let sort = kept(name).unwrap_or_else(|| {
                let sort = format!("{name}-{:032x}", crate::db::random_bits());
                let mut text = keys::data(&keys::texts(&new.key), &sort);
                text.insert("value".to_owned(), b(&value));
                writes.push(self.db.write(Write::put(Table::Data, text)));
                sort
            });
            references.push((name, sort));
        }
        try_join_all(writes).await?;
        texts::refer(&mut item, &references);
        Ok(item)
    }

    /// Writes an item of `weaver-data`, once per process.
    pub(crate) async fn put_once(&self, partition: String, sort: &str) -> Result<()> {
        let place = (partition, sort.to_owned());
        if self.known.lock().contains(&place) {
            return Ok(());
        }
        let done = self.db.write(Write::put(Table::Data, keys::data(&place.0, &place.1))).await?;
        debug_assert!(matches!(done, crate::db::Written::Applied(_)), "it has no condition");
        self.known.lock().insert(place);
        Ok(())
    }
}

/// Makes a write conditional on the item being unchanged since it was read: our `version`, and the `status`,
/// which other clients change without it. `renewals` too, as the whole item is replaced.
pub(crate) fn if_unchanged(write: Write, item: &Item) -> Write {
    let write = match item.number("version") {
        Some(version) => write.when("version = :seen_version").value(":seen_version", n(version)),
        None => write.when("attribute_exists(task_id) AND attribute_not_exists(version)"),
    };
    let write = match item.number("renewals") {
        Some(renewals) => write.when("renewals = :seen_renewals").value(":seen_renewals", n(renewals)),
        None => write,
    };
    // Counting a queue's running tasks changes neither.
    let write = match item.flag("counted") {
        true => write.when("attribute_exists(counted)"),
        false => write.when("attribute_not_exists(counted)"),
    };
    // A newer version of Weaver may have rewritten it in another format.
    let write = match item.number("format") {
        Some(format) => write.when("#format = :seen_format").value(":seen_format", n(format)),
        None => write.when("attribute_not_exists(#format)"),
    };
    let write = write.name("#format", "format");
    let status = item.text("status").unwrap_or_default();
    write.when("#status = :seen_status").name("#status", "status").value(":seen_status", s(status))
}

/// The error of a call that lost every race against concurrent writers.
pub(crate) fn too_contended(what: &impl std::fmt::Display) -> Error {
    Error::Unavailable { reason: format!("{what} has too many concurrent writers") }
}
