//! The port `UnreadableRecords`.

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Value, json};
use weaver_core::error::Result;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page, UnreadableRecords};
use weaver_core::quarantine::{Discarded, Quarantined, RawTask, RecordKind};

use crate::codec::record::state_of;
use crate::codec::value::{Attributes, n};
use crate::db::{Item, Query, Table, Transacted, Write};
use crate::keys;
use crate::ports::enqueue::entries_of;
use crate::ports::overdue::data_key;
use crate::records::too_contended;
use crate::store::DynamoStore;
use crate::unreadable::{queue_of, serial_key_of};

/// Maximum number of attempts of a contended removal.
const TRIES_MAX: u32 = 10;
/// Attributes that change with every write of a task's item: a removal is conditional on all of them.
const SEEN: [(&str, &str, &str); 5] = [
    ("version", "#version", ":version"),
    ("renewals", "#renewals", ":renewals"),
    ("status", "#status", ":status"),
    ("updated_at", "#updated", ":updated"),
    ("counted", "#counted", ":counted"),
];

#[async_trait]
impl UnreadableRecords for DynamoStore {
    async fn list_quarantined(
        &self,
        namespace: Option<&Namespace>,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>> {
        self.quarantine.page(namespace, cursor, limit)
    }

    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>> {
        let find = |key: &TaskKey| self.quarantine.get(&key.namespace, RecordKind::Task, &key.id.to_string());
        Ok(keys.iter().map(find).collect())
    }

    async fn raw_task(&self, key: &TaskKey) -> Result<Option<RawTask>> {
        Ok(self.raw_item(key).await?.map(|(_, item)| raw(&item)))
    }

    async fn discard_task(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded> {
        for attempt in 0..TRIES_MAX {
            let Some((name, item)) = self.raw_item(key).await? else { return Ok(Discarded::Missing) };
            if raw(&item) != *expected {
                return Ok(Discarded::Changed);
            }
            match self.remove_item(key, &name, &item).await? {
                Transacted::Applied => {
                    self.removed(key, &item).await?;
                    return Ok(Discarded::Removed);
                }
                // The task or its gate has changed: read again.
                Transacted::ConditionFailed(_) | Transacted::Conflict => {
                    crate::db::backoff(attempt.min(4)).await;
                }
            }
        }
        Err(too_contended(key))
    }
}

impl DynamoStore {
    /// A task's name and stored item.
    async fn raw_item(&self, key: &TaskKey) -> Result<Option<(String, Item)>> {
        let Some(name) = self.names_of(std::slice::from_ref(key)).await?.remove(key) else { return Ok(None) };
        let item = self.db.get(Table::Queue, vec![keys::task(&key.namespace, &name)]).await?.pop();
        Ok(item.map(|item| (name, item)))
    }

    /// Removes a task's item and releases its serial key and slot.
    async fn remove_item(&self, key: &TaskKey, name: &str, item: &Item) -> Result<Transacted> {
        let namespace = &key.namespace;
        let mut task = Write::delete(Table::Queue, keys::task(namespace, name));
        for (attribute, stands, value) in SEEN {
            task = match item.get(attribute) {
                Some(seen) => task.when(format!("{stands} = {value}")).value(value, seen.clone()),
                None => task.when(format!("attribute_not_exists({stands})")),
            };
            task = task.name(stands, attribute);
        }
        let mut writes = vec![task];
        if let Some(serial_key) = serial_key_of(item) {
            let gate = self.db.get(Table::Data, vec![keys::gate(namespace, &serial_key)]).await?;
            let holder = gate.first().and_then(|gate| gate.number("holder")).map(TaskId);
            let turned = if holder == Some(key.id) { "REMOVE holder ADD turn :one" } else { "ADD turn :one" };
            let gate = Write::update(Table::Data, keys::gate(namespace, &serial_key), turned);
            let gate = gate.value(":one", n(1));
            writes.push(match holder {
                Some(holder) => gate.when("holder = :holder").value(":holder", n(holder.0)),
                None => gate.when("attribute_not_exists(holder)"),
            });
            // Its sort key is the one of a task of Weaver, or the one of a task of another client.
            let created_at = item.instant("created_at_us").unwrap_or_default();
            for sort in [keys::member_sort(key.id), keys::foreign_member_sort(created_at, name)] {
                writes.push(Write::delete(Table::Data, keys::member(namespace, &serial_key, &sort)));
            }
        }
        if let (true, Some(queue)) = (item.flag("counted"), queue_of(item)) {
            let queue = keys::data(&keys::queues(namespace), queue.as_str());
            writes.push(Write::update(Table::Data, queue, "ADD occupied :slot").value(":slot", n(-1)));
        }
        self.db.transact(writes).await
    }

    /// Removes the side items of a removed task, as far as its item names them.
    async fn removed(&self, key: &TaskKey, item: &Item) -> Result<()> {
        let namespace = &key.namespace;
        let mut side: Vec<Item> = Vec::new();
        for text in self.query_all(Query::table(Table::Data, keys::texts(key))).await? {
            side.push(data_key(&text));
        }
        side.extend(self.stream_keys(key).await?);
        let entry = keys::padded(key.id.0);
        let partitions = match crate::unreadable::read(item, &Default::default()) {
            Ok(record) => entries_of(namespace, &record),
            Err(_) => {
                let of = |kind, attribute: &str| Some(keys::entries(kind, namespace, item.text(attribute)?));
                of("group", "task_group_id").into_iter().chain(of("session", "session_id")).collect()
            }
        };
        side.extend(partitions.iter().map(|partition| keys::data(partition, &entry)));
        if let Some(expires_at) = item.instant("expires_at_us") {
            side.push(keys::expiring(expires_at, key));
        }
        self.db.remove(Table::Data, side).await?;
        if let (Some(queue), Some(state)) = (queue_of(item), state_of(item)) {
            let occupied =
                item.contains_key("lease_token") || matches!(state.as_str(), "assigned" | "orphaned");
            self.deltas.lock().remove((namespace.clone(), queue), state, occupied);
        }
        self.overlay.lock().removed(key);
        self.observations.lock().remove(key);
        self.forget(key);
        self.quarantine.remove(namespace, RecordKind::Task, &key.id.to_string());
        self.flush_counts_if_due().await;
        // A released key or slot may let a waiting worker lease a task.
        self.changed.notify_waiters();
        Ok(())
    }
}

/// An item in DynamoDB's JSON format; deterministic.
fn raw(item: &Item) -> RawTask {
    RawTask { text: object(item.iter()).to_string() }
}

fn object<'a>(attributes: impl Iterator<Item = (&'a String, &'a AttributeValue)>) -> Value {
    // Sorted by name: `serde_json` keeps its maps in order.
    Value::Object(attributes.map(|(name, value)| (name.clone(), attribute(value))).collect::<Map<_, _>>())
}

fn attribute(value: &AttributeValue) -> Value {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::B(bytes) => json!({ "B": hex(bytes.as_ref()) }),
        AttributeValue::Bool(flag) => json!({ "BOOL": flag }),
        AttributeValue::Null(_) => json!({ "NULL": true }),
        AttributeValue::L(list) => json!({ "L": list.iter().map(attribute).collect::<Vec<_>>() }),
        AttributeValue::M(map) => json!({ "M": object(map.iter()) }),
        AttributeValue::Ss(texts) => json!({ "SS": texts }),
        AttributeValue::Ns(numbers) => json!({ "NS": numbers }),
        other => json!({ "other": format!("{other:?}") }),
    }
}
