//! The port `Tasks`. Lists are in [`super::list`].

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use weaver_core::admission;
use weaver_core::error::Result;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Ahead, Counts, Cursor, GroupSummary, Page, Scope, StateCounts, TaskQuery, Tasks};
use weaver_core::task::TaskRecord;
use weaver_core::task::{Dispatch, DispatchFilter};
use weaver_core::time::Timestamp;

use crate::codec::value::Attributes;
use crate::db::{Index, Query, Range, Table};
use crate::gate;
use crate::keys;
use crate::overlay::Ready;
use crate::ports::ready::DueSearch;
use crate::store::DynamoStore;

#[async_trait]
impl Tasks for DynamoStore {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        let mut found = Vec::with_capacity(ids.len());
        for text in ids {
            found.push(match text.parse::<TaskId>() {
                Ok(id) if !id.is_foreign() => Some(TaskKey::new(namespace.clone(), id)),
                Ok(id) => Some(self.by_foreign_id(namespace, id).await?),
                Err(_) => self.by_name(namespace, text).await?,
            });
        }
        Ok(found)
    }

    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        let found = self.load(keys).await?;
        Ok(keys.iter().map(|key| found.get(key).map(|stored| stored.record.clone())).collect())
    }

    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>> {
        check_page(limit)?;
        self.groups(namespace, cursor, limit).await
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        query.validate()?;
        self.list(query).await
    }

    async fn counts(&self, scope: Scope) -> Result<Counts> {
        let namespace = match &scope {
            Scope::Namespace(namespace) | Scope::Queue(namespace, _) => namespace,
        };
        let mut values = StateCounts::default();
        let mut queues = Vec::new();
        for queue in self.queue_counts(namespace).await? {
            if matches!(&scope, Scope::Queue(_, wanted) if *wanted != queue.queue) {
                continue;
            }
            values += queue.counts;
            queues.push(queue.queue);
        }
        let as_of = self.now();
        let oldest_ready_at = self.oldest_ready_at(namespace, &queues, as_of).await?;
        Ok(Counts { values, oldest_ready_at, as_of, exact: false })
    }

    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>> {
        let Some(stored) = self.load_one(key).await? else { return Ok(None) };
        let Some(own) = Ready::of_record(&stored.record) else { return Ok(None) };
        let cap = cap as usize;
        let mut count = self.ahead_in_queue(&own, cap).await?;
        if let Some(serial_key) = &stored.record.spec.serial_key {
            count = count.max(self.ahead_at_gate(&stored.record, serial_key).await?);
        }
        let count = count.min(cap);
        Ok(Some(Ahead { count: count as u32, capped: count == cap }))
    }
}

impl DynamoStore {
    /// A task by the name that another client chose.
    async fn by_name(&self, namespace: &Namespace, name: &str) -> Result<Option<TaskKey>> {
        if name.is_empty() || name.len() > 1024 {
            return Ok(None);
        }
        let items = self.db.get(Table::Queue, vec![keys::task(namespace, name)]).await?;
        if items.is_empty() {
            return Ok(None);
        }
        // Quarantines it if it is unreadable: it can be removed by its name, too.
        self.read(items).await?;
        let key = TaskKey::of_text(namespace.clone(), name);
        // From now on it is found by its id as well.
        Ok(self.note_name(&key).await?.then_some(key))
    }

    /// A task by the number that stands for another client's name, with that name if it is known.
    async fn by_foreign_id(&self, namespace: &Namespace, id: TaskId) -> Result<TaskKey> {
        let key = TaskKey::new(namespace.clone(), id);
        if let Some(name) = self.names_of(std::slice::from_ref(&key)).await?.remove(&key) {
            return Ok(TaskKey::of_text(namespace.clone(), &name));
        }
        // Its name may be this number.
        Ok(self.by_name(namespace, &id.to_string()).await?.unwrap_or(key))
    }

    /// Number of tasks of the queue that would be leased first, at most `cap`.
    async fn ahead_in_queue(&self, own: &Ready, cap: usize) -> Result<usize> {
        let (now, except) = (self.now(), HashSet::new());
        let namespace = &own.key.namespace;
        let search = DueSearch { namespace, types: None, max: cap, slots: u32::MAX, except: &except, now };
        let mut ahead: HashSet<TaskKey> = HashSet::new();
        let mut gates = HashMap::new();
        // The start of the partition: the lowest priority digit is 0.
        let mut position = "0".to_owned();
        while ahead.len() < cap {
            let range = Range::Between(position.clone(), own.sort.clone());
            let query = Query::index(Index::Ready, &own.partition).range(range).limit(1000);
            let found = self.db.query(query).await?;
            let page: Vec<Ready> = found.items.iter().filter_map(Ready::of_item).collect();
            let end = found.next.is_some().then(|| page.last().map(|ready| ready.sort.clone())).flatten();
            let page = self.overlay.lock().correct(&own.partition, &position, end.as_deref(), page);
            let due = |ready: &Ready| ready.sort < own.sort && ready.is_due(now) && !ready.is_expired(now);
            let before: Vec<Ready> = page.into_iter().filter(due).collect();
            self.read_gates(&search, &before, &mut gates).await?;
            let may_go = |ready: &Ready| {
                let gate = ready.serial_key.as_ref().map(|key| gates.get(key).cloned().unwrap_or_default());
                gate.is_none_or(|gate| gate.admits(ready.key.id))
            };
            ahead.extend(before.into_iter().filter(may_go).map(|ready| ready.key));
            match end {
                Some(end) => position = format!("{end}\u{1f}"),
                None => break,
            }
        }
        Ok(ahead.len())
    }

    /// Number of tasks that go first at the task's gate.
    async fn ahead_at_gate(&self, record: &TaskRecord, key: &weaver_core::name::SerialKey) -> Result<usize> {
        let now = self.now();
        let partition = keys::gate_partition(&record.key.namespace, key);
        let items = self.query_all(Query::table(Table::Data, partition)).await?;
        // The order of starts, as an id; for tasks of Weaver it is their id.
        let place =
            |sort: &str| keys::member_of(sort).map(|(place, _)| TaskId(place)).unwrap_or(record.key.id);
        let own = gate::sort_of(record);
        let goes_first = |item: &&crate::db::Item| {
            let sort = item.text("sk").unwrap_or_default();
            if sort == keys::ALONE {
                return item.number("holder").is_some_and(|holder| holder != record.key.id.0);
            }
            let is_startable = gate::is_startable(item, now);
            sort != own && admission::goes_first(place(sort), false, is_startable, place(&own), false)
        };
        Ok(items.iter().filter(goes_first).count())
    }

    /// Due time of the longest-waiting leasable task: the earliest of each priority's first.
    async fn oldest_ready_at(
        &self,
        namespace: &Namespace,
        queues: &[QueueName],
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let mut oldest: Option<Timestamp> = None;
        let states = self.queue_states(namespace, queues).await?;
        for queue in queues {
            let has_own = states.get(queue).is_some_and(|state| state.has_own_dispatch);
            let parts = DispatchFilter::Any.parts(Dispatch::default());
            for own in parts.filter(|own| own.is_none() || has_own) {
                let partition = keys::ready_partition(namespace, queue, own);
                for priority in 0..=9_u8 {
                    let first = self.first_due(namespace, &partition, priority, now).await?;
                    oldest = [oldest, first].into_iter().flatten().min();
                }
            }
        }
        Ok(oldest)
    }

    async fn first_due(
        &self,
        namespace: &Namespace,
        partition: &str,
        priority: u8,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let prefix = format!("{priority}\u{1f}");
        let query = Query::index(Index::Ready, partition).range(Range::BeginsWith(prefix.clone())).limit(100);
        let found = self.db.query(query).await?;
        let page: Vec<Ready> = found.items.iter().filter_map(Ready::of_item).collect();
        let until = found.next.is_some().then(|| page.last().map(|ready| ready.sort.clone())).flatten();
        let until = until.unwrap_or_else(|| format!("{priority}\u{20}"));
        let page = self.overlay.lock().correct(partition, &prefix, Some(&until), page);
        let except = HashSet::new();
        let search = DueSearch { namespace, types: None, max: 1, slots: 1, except: &except, now };
        for ready in page {
            if !ready.is_due(now) {
                return Ok(None);
            }
            if ready.is_expired(now) {
                continue;
            }
            let may_go = match &ready.serial_key {
                Some(key) => self.gate(search.namespace, key, now).await?.admits(ready.key.id),
                None => true,
            };
            if may_go {
                return Ok(Some(ready.ready_at()));
            }
        }
        Ok(None)
    }
}
