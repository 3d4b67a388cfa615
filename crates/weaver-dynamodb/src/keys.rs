//! Keys of all items. The tables are listed in `docs/ports-on-dynamodb.md`.

use weaver_core::id::{LeaseToken, TaskId, TaskKey};
use weaver_core::name::{Namespace, QueueName, SerialKey};
use weaver_core::ports::{DocumentKey, RunnerKey, StreamKey};
use weaver_core::task::Dispatch;
use weaver_core::task::{Priority, UniqueKey};
use weaver_core::time::Timestamp;

use crate::codec::value::key;
use crate::db::{Item, Table};

/// Separates the parts of a key; no name can contain it.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// Number of partitions for lease items: each takes a thousand lease calls a second, and every search for
/// overdue tasks reads all of them.
pub(crate) const LEASE_SHARDS: u128 = 4;

/// The sort key of the only (or main) item of a partition.
pub(crate) const ALONE: &str = "-";

/// Joins the parts of a key.
pub(crate) fn join(parts: &[&str]) -> String {
    parts.join("\u{1f}")
}

/// Splits a key into its parts.
pub(crate) fn split(text: &str) -> Vec<&str> {
    text.split(SEPARATOR).collect()
}

/// Key of a task's item, by its name ([`name_of`](crate::codec::record::name_of)).
pub(crate) fn task(namespace: &Namespace, name: &str) -> Item {
    key(Table::Queue.key(), namespace.as_str(), name)
}

/// Key of a worker's item, in seed 000's table.
pub(crate) fn runner(runner: &RunnerKey) -> Item {
    key(Table::Runners.key(), runner.namespace.as_str(), runner.runner_id.as_str())
}

/// Key of an item of `weaver-data`.
pub(crate) fn data(partition: &str, sort: &str) -> Item {
    key(Table::Data.key(), partition, sort)
}

/// A number zero-padded to 20 digits, so that text order is numeric order.
pub(crate) fn padded(number: u64) -> String {
    format!("{number:020}")
}

/// The name of a task's item, from a key that was made from it or has a number of Weaver's.
pub(crate) fn name_in(task: &TaskKey) -> String {
    task.foreign_text().map_or_else(|| task.id.to_string(), str::to_owned)
}

pub(crate) fn foreign(namespace: &Namespace) -> String {
    join(&["foreign", namespace.as_str()])
}

/// The waiting tasks of a queue: those without a dispatch of their own, or those with this one.
pub(crate) fn ready_partition(namespace: &Namespace, queue: &QueueName, own: Option<Dispatch>) -> String {
    match own {
        None => join(&[namespace.as_str(), queue.as_str()]),
        Some(own) => join(&[namespace.as_str(), queue.as_str(), own.as_str()]),
    }
}

/// The tasks that are assigned and not started, and the orphans.
pub(crate) const UNSTARTED: &str = "unstarted";

pub(crate) fn unstarted(task: &TaskKey) -> Item {
    data(UNSTARTED, &join(&[task.namespace.as_str(), &padded(task.id.0)]))
}

pub(crate) fn ready_sort(priority: Priority, ready_at: Timestamp, id: TaskId) -> String {
    join(&[&priority.get().to_string(), &ready_at.to_string(), &padded(id.0)])
}

pub(crate) fn unique(namespace: &Namespace, unique: &UniqueKey) -> Item {
    let partition = match unique {
        UniqueKey::Idempotency(key) => join(&["unique", namespace.as_str(), "idempotency", key.as_str()]),
        UniqueKey::Schedule(definition, at) => {
            join(&["unique", namespace.as_str(), "schedule", definition.as_str(), &at.to_string()])
        }
    };
    data(&partition, ALONE)
}

pub(crate) fn lease_partition(shard: u128) -> String {
    join(&["lease", &shard.to_string()])
}

pub(crate) fn lease(token: LeaseToken) -> Item {
    data(&lease_partition(token.0 % LEASE_SHARDS), &token_text(token))
}

pub(crate) fn token_text(token: LeaseToken) -> String {
    format!("{:032x}", token.0)
}

pub(crate) fn gate_partition(namespace: &Namespace, key: &SerialKey) -> String {
    join(&["gate", namespace.as_str(), key.as_str()])
}

pub(crate) fn gate(namespace: &Namespace, key: &SerialKey) -> Item {
    data(&gate_partition(namespace, key), ALONE)
}

pub(crate) fn member(namespace: &Namespace, key: &SerialKey, sort: &str) -> Item {
    data(&gate_partition(namespace, key), sort)
}

/// Sort key of a waiting task at its gate: tasks start in this order.
pub(crate) fn member_sort(id: TaskId) -> String {
    join(&["m", &padded(id.0)])
}

/// The same for a task of another client, whose id is a hash: by creation, then by name.
pub(crate) fn foreign_member_sort(created_at: Timestamp, name: &str) -> String {
    join(&["m", &padded(crate::ids::place_of(created_at)), name])
}

/// The place in the order, and the task, of a member's sort key.
pub(crate) fn member_of(sort: &str) -> Option<(u64, TaskId)> {
    let mut parts = sort.splitn(3, SEPARATOR).skip(1);
    let place = parts.next()?.parse().ok()?;
    Some((place, parts.next().map_or(TaskId(place), TaskId::of_text)))
}

pub(crate) fn queues(namespace: &Namespace) -> String {
    join(&["queue", namespace.as_str()])
}

pub(crate) fn counts(namespace: &Namespace) -> String {
    join(&["counts", namespace.as_str()])
}

pub(crate) fn texts(key: &TaskKey) -> String {
    join(&["text", key.namespace.as_str(), &key.id.to_string()])
}

/// Partition of index entries; `kind` is `group`, `session` or `label`.
pub(crate) fn entries(kind: &str, namespace: &Namespace, value: &str) -> String {
    join(&[kind, namespace.as_str(), value])
}

pub(crate) fn groups(namespace: &Namespace) -> String {
    join(&["groups", namespace.as_str()])
}

pub(crate) const NAMESPACES: &str = "namespaces";

/// Partition of tasks with `expires_at`, by that time.
pub(crate) const EXPIRING: &str = "expiring";

pub(crate) fn expiring(at: Timestamp, task: &TaskKey) -> Item {
    let sort = join(&[&at.to_string(), task.namespace.as_str(), &task.id.to_string()]);
    data(EXPIRING, &sort)
}

pub(crate) fn documents(namespace: &Namespace, kind: &str) -> String {
    join(&["doc", namespace.as_str(), kind])
}

pub(crate) fn document(document: &DocumentKey) -> Item {
    data(&documents(&document.namespace, &document.kind), &document.id)
}

pub(crate) fn due(kind: &str) -> String {
    join(&["due", kind])
}

pub(crate) fn due_entry(at: Timestamp, document: &DocumentKey) -> Item {
    let sort = join(&[&at.to_string(), document.namespace.as_str(), &document.id]);
    data(&due(&document.kind), &sort)
}

pub(crate) fn heads(namespace: &Namespace) -> String {
    join(&["heads", namespace.as_str()])
}

pub(crate) fn head(stream: &StreamKey) -> Item {
    data(&heads(&stream.namespace), &stream.name)
}

pub(crate) fn stream(stream: &StreamKey) -> String {
    join(&["stream", stream.namespace.as_str(), &stream.name])
}

/// The counter of write announcements by all processes.
pub(crate) fn activity() -> Item {
    data("activity", ALONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_gate_sort_by_creation_and_name_the_task() {
        let at = |micros: i64| Timestamp::from_micros(1_767_225_600_000_000 + micros);
        let ours = TaskId(crate::ids::place_of(at(5_000)) + 7);
        let sorts = [
            foreign_member_sort(at(0), "task-9"),
            foreign_member_sort(at(1), "task-1"),
            foreign_member_sort(at(1), "task-2"),
            member_sort(ours),
            foreign_member_sort(at(6_000), "42"),
        ];
        assert!(sorts.is_sorted(), "{sorts:?}");
        let id_of = TaskId::of_text;
        let tasks: Vec<_> = sorts.iter().map(|sort| member_of(sort).expect("a member").1).collect();
        assert_eq!(tasks, [id_of("task-9"), id_of("task-1"), id_of("task-2"), ours, TaskId(42)]);
        assert_eq!(member_of(ALONE), None);
    }

    #[test]
    fn ready_keys_sort_by_priority_then_time_then_number() {
        let at = |micros| Timestamp::from_micros(micros);
        let sort =
            |priority, micros, id| ready_sort(Priority::new(priority).unwrap(), at(micros), TaskId(id));
        let in_order = [sort(0, 9, 1), sort(5, 1, 1), sort(5, 1, 2), sort(5, 1, 10), sort(5, 2, 1)];
        assert!(in_order.is_sorted());
    }
}
