//! Queue settings.

use weaver_core::id::Version;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Expect, QueueSettings};
use weaver_core::quarantine::RecordKind;

use crate::fault::StoreResult;
use crate::work::Work;

impl Work<'_> {
    pub(crate) fn put_queue(
        &mut self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> StoreResult<Version> {
        let version = self.memory.index.put_queue(namespace, queue, settings, expect)?;
        if self.memory.unread_queues.remove(&(namespace.clone(), queue.clone())) {
            self.memory.quarantine.remove(namespace, RecordKind::QueueSettings, queue.as_str());
        }
        self.memory.touched.insert((namespace.clone(), queue.clone()));
        self.wrote = true;
        Ok(version)
    }
}
