//! The port `Admin`. Purging is in [`super::purge`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Admin, Cursor, Expect, Page, PurgeRule, Purged, QueueInfo, QueueSettings};
use weaver_core::quarantine::{Quarantined, RecordKind};

use crate::codec::value::Attributes;
use crate::db::{Query, Range, Table};
use crate::keys;
use crate::queues::{QueueState, settings_of};
use crate::store::DynamoStore;

#[async_trait]
impl Admin for DynamoStore {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        let mut queues: BTreeMap<QueueName, QueueInfo> = BTreeMap::new();
        let mut unreadable = Vec::new();
        for found in self.queue_counts(namespace).await? {
            if found.counts.total() > 0 {
                let name = found.queue;
                let (settings, version) = (QueueSettings::default(), Version(0));
                queues.insert(name.clone(), QueueInfo { name, settings, version, occupied: found.occupied });
            }
        }
        for item in self.query_all(Query::table(Table::Data, keys::queues(namespace))).await? {
            let state = QueueState::of(&item);
            if let Err(why) = settings_of(&item) {
                let id = item.text("sk").unwrap_or_default();
                let queue = QueueName::try_from(id).ok();
                let finding =
                    Quarantined::new(RecordKind::QueueSettings, namespace.clone(), id, why, self.now());
                unreadable.push(Quarantined { queue, ..finding });
            }
            let Ok(name) = QueueName::try_from(item.text("sk").unwrap_or_default()) else { continue };
            if state.version == Version(0) && !state.settings.paused {
                continue;
            }
            let (settings, version) = (state.settings, state.version);
            // Exact for queues with a limit, otherwise from the counts.
            let counted = queues.get(&name).map_or(0, |known| known.occupied);
            let occupied = if settings.max_running.is_some() { state.occupied } else { counted };
            queues.insert(name.clone(), QueueInfo { name, settings, version, occupied });
        }
        self.quarantine.settle(namespace, RecordKind::QueueSettings, unreadable);
        Ok(queues.into_values().collect())
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        self.set_queue(namespace, queue, settings, expect).await
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        rule.validate()?;
        self.purge(&rule, limit).await
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        check_page(limit)?;
        let range = cursor.map_or(Range::All, |Cursor(after)| Range::After(after));
        let query = Query::table(Table::Data, keys::NAMESPACES).range(range).limit(limit);
        let found = self.db.query(query).await?;
        let items: Vec<Namespace> =
            found.items.iter().filter_map(|item| Namespace::try_from(item.text("sk")?).ok()).collect();
        let next = found.next.and(items.last()).map(|last| Cursor(last.to_string()));
        Ok(Page { items, next, complete: true })
    }
}
