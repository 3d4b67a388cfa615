//! Runners in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Invalid, Problem, Result};
use crate::limits::check_page;
use crate::name::{Namespace, WorkerId};
use crate::ports::{Beat, Cursor, Directive, Page, RunnerKey, RunnerRecord, RunnerStatus, Runners};
use crate::queue::memory::InMemoryQueue;
use crate::time::Timestamp;

/// Runners without a heartbeat for this long are removed.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Default)]
pub(super) struct RunnersState {
    runners: BTreeMap<RunnerKey, RunnerRecord>,
    /// Directives, and when each was set. Separate from the runners: one may be set before the first
    /// heartbeat.
    directives: BTreeMap<RunnerKey, (Directive, Timestamp)>,
    swept_at: Timestamp,
}

impl RunnersState {
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.runners.keys().map(|key| &key.namespace)
    }

    fn beat(&mut self, beat: Beat, now: Timestamp) -> Directive {
        let directive = self.directives.get(&beat.key).map(|(directive, _)| *directive).unwrap_or_default();
        let key = beat.key.clone();
        let status = RunnerStatus::Running;
        self.runners.insert(key, RunnerRecord { beat, last_heartbeat: now, status, directive });
        directive
    }

    /// Once an hour, so that runners with ever new ids do not fill the memory.
    fn sweep(&mut self, now: Timestamp) {
        if now.since(self.swept_at) < FORGOTTEN_AFTER / 24 {
            return;
        }
        self.swept_at = now;
        self.runners.retain(|_, runner| now.since(runner.last_heartbeat) < FORGOTTEN_AFTER);
        let runners = &self.runners;
        self.directives
            .retain(|key, (_, since)| runners.contains_key(key) || now.since(*since) < FORGOTTEN_AFTER);
    }
}

#[async_trait]
impl Runners for InMemoryQueue {
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        self.limits.check_batch("beats", beats.len())?;
        for (index, beat) in beats.iter().enumerate() {
            beat.validate().map_err(|invalid| invalid.at(index))?;
        }
        let now = self.clock.now().steady;
        let mut state = self.runners.lock();
        state.sweep(now);
        Ok(beats.into_iter().map(|beat| state.beat(beat, now)).collect())
    }

    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
        let now = self.clock.now().steady;
        let mut state = self.runners.lock();
        state.directives.insert(key.clone(), (directive, now));
        if let Some(runner) = state.runners.get_mut(key) {
            runner.directive = directive;
        }
        Ok(())
    }

    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>> {
        check_page(limit)?;
        let key = |runner_id| RunnerKey { namespace: namespace.clone(), runner_id };
        let start = match cursor {
            Some(Cursor(text)) => {
                let id = WorkerId::new(text).map_err(|_| Invalid::new("cursor", Problem::UnknownCursor))?;
                Bound::Excluded(key(id))
            }
            // No name sorts before a space.
            None => Bound::Included(key(WorkerId::new(" ")?)),
        };
        let state = self.runners.lock();
        let runners = state.runners.range((start, Bound::Unbounded)).map(|(_, runner)| runner);
        let mut runners = runners.take_while(|runner| runner.beat.key.namespace == *namespace);
        let items: Vec<_> = runners.by_ref().take(limit as usize).cloned().collect();
        let next = runners.next().and(items.last()).map(|last| Cursor(last.beat.key.runner_id.to_string()));
        Ok(Page { items, next, complete: true })
    }

    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        if let Some(runner) = self.runners.lock().runners.get_mut(key) {
            runner.status = RunnerStatus::Stopped;
        }
        Ok(())
    }
}
