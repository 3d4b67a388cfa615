//! The port `Admin`.

use std::collections::BTreeSet;

use async_trait::async_trait;
use weaver_core::error::Result;
use weaver_core::id::Version;
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Admin, Cursor, Expect, Page, PurgeRule, Purged, QueueInfo, QueueSettings};

use crate::EmbeddedStore;
use crate::keys;
use crate::ports::check_limit;
use crate::rows;

#[async_trait]
impl Admin for EmbeddedStore {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        let namespace = namespace.clone();
        self.read_memory(move |work| Ok(work.memory.index.list_queues(&namespace))).await
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version> {
        let (namespace, queue) = (namespace.clone(), queue.clone());
        self.write(move |work| work.put_queue(&namespace, &queue, settings, expect)).await
    }

    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged> {
        check_limit(limit)?;
        self.write(move |work| work.purge(&rule, limit as usize)).await
    }

    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>> {
        check_page(limit)?;
        let names: BTreeSet<Namespace> = self
            .read_memory(|work| {
                let mut names: BTreeSet<_> = work.memory.index.namespaces().cloned().collect();
                for (number, name) in work.memory.names.iter() {
                    for tag in [keys::DOCUMENT, keys::RUNNER] {
                        if rows::scan_all(&work.table, &keys::of_namespace(tag, number))?.next().is_some() {
                            names.insert(name.clone());
                        }
                    }
                }
                Ok(names)
            })
            .await?;
        let after = cursor.map(|Cursor(text)| text);
        let mut names =
            names.into_iter().filter(|name| after.as_deref().is_none_or(|after| name.as_str() > after));
        let items: Vec<_> = names.by_ref().take(limit as usize).collect();
        let next = names.next().and(items.last()).map(|last| Cursor(last.to_string()));
        Ok(Page { items, next, complete: true })
    }
}
