//! Leases of processes of this machine that have ended: lost now, not when they expire.

use weaver_core::error::Result;
use weaver_core::id::ProcessId;
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::Namespace;
use weaver_core::ports::{Selector, TaskQuery};
use weaver_core::queue::Committed;
use weaver_core::task::TaskState;

use super::{LocalSource, MAINTAIN_MAX, WorkSource};

impl LocalSource {
    /// Ends the leases of processes that have ended; returns how many there were.
    pub(super) async fn expire_ended(&self) -> Result<u32> {
        let Some(lock) = &self.process_lock else { return Ok(0) };
        let mut lost = 0;
        // Reads a local directory with a few small files, without waiting for a lock.
        for ended in lock.ended() {
            let process = format!("{:016x}", ended.process.0);
            tracing::info!(process, "a process has ended; expiring its leases");
            for namespace in self.namespaces().await? {
                lost += self.expire_leases_of(ended.process, namespace).await?;
            }
            // Not before: after an error the next round finds it again.
            ended.forget();
        }
        Ok(lost)
    }

    async fn expire_leases_of(&self, process: ProcessId, namespace: Namespace) -> Result<u32> {
        let mut lost = 0;
        let mut query = TaskQuery {
            limit: MAINTAIN_MAX,
            ..TaskQuery::new(namespace).select(Selector::State(TaskState::Running))
        };
        loop {
            let page = self.store.list_tasks(query.clone()).await?;
            let decided = page.items.iter().filter_map(|record| {
                // Refused: another process holds the lease.
                decide(record, Command::HolderEnded { process }, record.updated_at).ok()
            });
            let transitions: Vec<_> = decided.collect();
            if !transitions.is_empty() {
                let committed = self.store.commit(transitions, None).await?;
                let is_applied = |committed: &&Committed| matches!(committed, Committed::Applied { .. });
                lost += u32::try_from(committed.iter().filter(is_applied).count()).unwrap_or(u32::MAX);
            }
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(lost),
            }
        }
    }
}
