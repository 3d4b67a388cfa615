//! Manual runs (`run-now`), by the same steps as a fire.

use std::collections::HashMap;

use weaver_core::id::TaskKey;
use weaver_core::name::Namespace;

use super::decide;
use super::work::Work;
use crate::definition::ConcurrencyPolicy;
use crate::error::{Result, SchedulerError};
use crate::service::{Scheduler, TRIES_MAX, busy};

impl Scheduler {
    pub(crate) async fn run_manually(&self, namespace: &Namespace, name: &str) -> Result<TaskKey> {
        for _ in 0..TRIES_MAX {
            let mut work = Work::open(&self.read(namespace, name).await?)?;
            if work.stored.state.is_unfinished() {
                self.finish(vec![work], &HashMap::new()).await?;
                continue;
            }
            let live = self.live(std::slice::from_ref(&work)).await?.remove(&work.key).unwrap_or_default();
            if let (ConcurrencyPolicy::Forbid, Some(run)) =
                (work.stored.spec.concurrency_policy, live.first())
            {
                let task = TaskKey::new(namespace.clone(), *run);
                return Err(SchedulerError::StillRunning { name: name.to_owned(), task });
            }
            decide::manual_run(&mut work, &live, self.clock.now());
            let wanted = work.stored.state.pending.iter().map(|run| run.key.clone()).next();
            let (won, _) = self.save(vec![work]).await?;
            if won.is_empty() {
                continue;
            }
            let made = self.finish(won, &HashMap::new()).await?;
            return match made.into_iter().find(|(run, _)| Some(run) == wanted.as_ref()) {
                Some((_, task)) => Ok(task),
                // The store refused it; the notice has the reason.
                None => Err(self.refusal(namespace, name).await?),
            };
        }
        Err(busy(name))
    }

    async fn refusal(&self, namespace: &Namespace, name: &str) -> Result<SchedulerError> {
        let reason = self.get(namespace, name).await?.last_notice.map(|notice| notice.reason);
        Ok(crate::error::InvalidField::error("task", reason.unwrap_or_default(), "edit the schedule"))
    }
}
