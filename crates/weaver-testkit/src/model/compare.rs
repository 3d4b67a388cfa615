//! Comparison of store and model, after every step and at the end.

use std::fmt::Debug;

use weaver_core::event::{Change, Changes};
use weaver_core::id::TaskKey;
use weaver_core::name::{Namespace, SerialKey, TaskType};
use weaver_core::ports::{AssignableRequest, Order, Scope, Selector, TaskQuery};
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::Timestamp;

use crate::harness::worker;
use crate::model::run::{Run, failed};
use crate::model::step::{NAMESPACES, QUEUES, namespace_at, queue_at};

const READ_BATCH: usize = 500;

/// Describes a difference, if there is one.
pub(super) fn same<T: PartialEq + Debug>(what: &str, store: &T, model: &T) -> Result<(), String> {
    if store == model {
        return Ok(());
    }
    Err(format!("{what} differ.\nstore: {store:#?}\nmodel: {model:#?}"))
}

impl Run {
    /// Compares records, counts, slots and changes.
    pub(super) async fn compare(&mut self) -> Result<(), String> {
        let now = self.harness.now().await;
        self.compare_records().await?;
        for namespace in (0..NAMESPACES).map(namespace_at) {
            self.compare_counts(Scope::Namespace(namespace.clone()), now).await?;
            for queue in (0..QUEUES).map(queue_at) {
                self.compare_counts(Scope::Queue(namespace.clone(), queue), now).await?;
            }
            self.compare_queues(&namespace).await?;
        }
        self.compare_assignments(now).await?;
        self.compare_changes().await
    }

    async fn compare_records(&self) -> Result<(), String> {
        for keys in self.keys.chunks(READ_BATCH) {
            let theirs = self.harness.store.get_tasks(keys).await.map_err(failed)?;
            same("how many records are read", &theirs.len(), &keys.len())?;
            for (key, record) in keys.iter().zip(&theirs) {
                same(&format!("records of {key}"), &record.as_ref(), &self.model.record(key))?;
            }
        }
        Ok(())
    }

    /// Which blocked tasks count for the oldest wait is up to the store; leasable tasks must count, and tasks
    /// that are not due must not.
    async fn compare_counts(&self, scope: Scope, now: Timestamp) -> Result<(), String> {
        let theirs = self.harness.store.counts(scope.clone()).await.map_err(failed)?;
        if !theirs.exact {
            return Ok(());
        }
        same(&format!("counts of {scope:?}"), &theirs.values, &self.model.counts(&scope))?;
        let due = || self.model.within(&scope).filter(|record| record.is_startable(now.into()));
        let earliest = due().map(|record| record.ready_at).min();
        let free = |record: &&TaskRecord| self.model.blocked(record, now).is_none();
        let latest = due().filter(free).map(|record| record.ready_at).min();
        let within = match (theirs.oldest_ready_at, earliest, latest) {
            (None, _, latest) => latest.is_none(),
            (Some(_), None, _) => false,
            (Some(at), Some(earliest), latest) => at >= earliest && latest.is_none_or(|latest| at <= latest),
        };
        if within {
            return Ok(());
        }
        let found = theirs.oldest_ready_at;
        Err(format!("oldest_ready_at of {scope:?} is {found:?}: not between {earliest:?} and {latest:?}"))
    }

    /// What a leader reads: due tasks that it assigns, and tasks that are assigned.
    async fn compare_assignments(&self, now: Timestamp) -> Result<(), String> {
        let request = |number| AssignableRequest {
            namespace: namespace_at(number),
            queues: (0..QUEUES).map(queue_at).collect(),
            types: None,
            max: 4,
        };
        let requests: Vec<_> = (0..NAMESPACES).map(request).collect();
        let ours: Vec<_> = requests.iter().map(|request| self.model.assignable(request, now)).collect();
        let theirs = self.harness.store.assignable(requests).await.map_err(failed)?;
        same("what a leader may assign", &theirs, &ours)?;
        let theirs = self.harness.store.assignments(1000).await.map_err(failed)?;
        same("what is assigned or orphaned", &theirs, &self.model.assignments())
    }

    async fn compare_queues(&self, namespace: &Namespace) -> Result<(), String> {
        let theirs = self.harness.store.list_queues(namespace).await.map_err(failed)?;
        same("order of queues", &theirs.is_sorted_by(|one, next| one.name < next.name), &true)?;
        for queue in (0..QUEUES).map(queue_at) {
            let occupied = self.model.occupied(namespace, &queue);
            let settings = self.model.settings(namespace, &queue);
            let scope = Scope::Queue(namespace.clone(), queue.clone());
            let has_tasks = self.model.within(&scope).any(|record| !record.state.is_terminal());
            match theirs.iter().find(|info| info.name == queue) {
                Some(info) => same(
                    &format!("queue {namespace}/{queue}: slots and settings"),
                    &(info.occupied, info.settings),
                    &(occupied, settings),
                )?,
                None if has_tasks || occupied > 0 || settings != Default::default() => {
                    return Err(format!("queue {namespace}/{queue} is not listed"));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Every change at least once, in order per task (G10); the order between tasks is free.
    async fn compare_changes(&mut self) -> Result<(), String> {
        let Some(mut cursor) = self.cursor else { return Ok(()) };
        let mut theirs = Vec::new();
        loop {
            match self.harness.store.changes(Some(cursor), 100).await.map_err(failed)? {
                Changes::Resync { .. } => return Err("the store says Resync: it forgot a change".into()),
                Changes::Next { items, next } => {
                    cursor = next;
                    if items.is_empty() {
                        break;
                    }
                    theirs.extend(items);
                }
            }
        }
        self.cursor = Some(cursor);
        let mut ours = self.model.changes()[self.changes_seen..].to_vec();
        self.changes_seen = self.model.changes().len();
        per_task(&mut theirs);
        per_task(&mut ours);
        same("changes", &theirs, &ours)
    }

    /// Lists in both orders, and by state, type, queue and serial key.
    pub(super) async fn compare_lists(&self) -> Result<(), String> {
        let mut selectors = vec![Selector::All];
        selectors.extend(TaskState::ALL.map(Selector::State));
        selectors.extend((0..QUEUES).map(queue_at).map(Selector::Queue));
        selectors.push(Selector::Type(TaskType::new("a").expect("a valid name")));
        selectors.push(Selector::Worker(worker("first")));
        selectors.push(Selector::Worker(worker("puller")));
        selectors.push(Selector::SerialKey(SerialKey::new("serial-0").expect("a valid name")));
        for namespace in (0..NAMESPACES).map(namespace_at) {
            for selector in &selectors {
                for order in [Order::OldestFirst, Order::NewestFirst] {
                    let query = TaskQuery { order, limit: 7, ..TaskQuery::new(namespace.clone()) };
                    self.compare_list(query.select(selector.clone())).await?;
                }
            }
        }
        Ok(())
    }

    async fn compare_list(&self, query: TaskQuery) -> Result<(), String> {
        let scope = Scope::Namespace(query.namespace.clone());
        let selected = self.model.within(&scope).filter(|record| query.selector.selects(record));
        let mut ours: Vec<TaskKey> = selected.map(|record| record.key.clone()).collect();
        if query.order == Order::NewestFirst {
            ours.reverse();
        }
        let mut theirs = Vec::new();
        let mut cursor = None;
        loop {
            let page = TaskQuery { cursor, ..query.clone() };
            let page = self.harness.store.list_tasks(page).await.map_err(failed)?;
            theirs.extend(page.items.into_iter().map(|record| record.key));
            cursor = page.next;
            if cursor.is_none() || theirs.len() > ours.len() {
                break;
            }
        }
        same(&format!("lists by {:?}, {:?}", query.selector, query.order), &theirs, &ours)
    }
}

/// Sorted by task, each task's changes in order, duplicates removed.
fn per_task(changes: &mut Vec<Change>) {
    changes.sort_by(|one, other| one.key.cmp(&other.key));
    changes.dedup();
}
