//! How many queues a namespace may have: each costs a row on every page and lines in `/metrics`.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::time::Monotonic;

use super::{Answer, AppState};
use crate::problem::Problem;

/// At the limit the store is asked again at most this often: queues go with their last task.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Beyond so many namespaces what is known of them is forgotten, and read again.
const NAMESPACES_KEPT: usize = 1000;

/// The queues that are known to exist. Several servers of one store each count for themselves, so together
/// they may let a few more in.
#[derive(Debug, Default)]
pub(crate) struct QueueQuota {
    known: Mutex<HashMap<Namespace, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    names: HashSet<QueueName>,
    read_at: Option<Monotonic>,
}

impl Known {
    /// Lets queues in, all or none.
    fn admit(&mut self, wanted: &HashSet<&QueueName>, max: usize) -> bool {
        let new = wanted.iter().filter(|queue| !self.names.contains(**queue)).count();
        let fits = new == 0 || self.names.len() + new <= max;
        if fits && new > 0 {
            self.names.extend(wanted.iter().map(|queue| (*queue).clone()));
        }
        fits
    }
}

impl QueueQuota {
    /// Refuses what would make a queue too many. Queues that exist are always let in.
    pub(crate) async fn check(
        &self,
        state: &AppState,
        namespace: &Namespace,
        wanted: &HashSet<&QueueName>,
    ) -> Answer<()> {
        let (max, now) = (state.limits.queues_per_namespace, state.clock.monotonic());
        {
            let mut known = self.known.lock();
            if known.len() >= NAMESPACES_KEPT && !known.contains_key(namespace) {
                known.clear();
            }
            let known = known.entry(namespace.clone()).or_default();
            let is_fresh = known.read_at.is_some_and(|at| now < at.saturating_add(READ_EVERY));
            if known.read_at.is_some() && known.admit(wanted, max) {
                return Ok(());
            }
            if is_fresh {
                return Err(exceeded(namespace, max));
            }
        }
        let queues = state.timed("list_queues", state.store.list_queues(namespace)).await?;
        let mut known = self.known.lock();
        let known = known.entry(namespace.clone()).or_default();
        known.names = queues.into_iter().map(|queue| queue.name).collect();
        known.read_at = Some(now);
        if known.admit(wanted, max) { Ok(()) } else { Err(exceeded(namespace, max)) }
    }
}

fn exceeded(namespace: &Namespace, max: usize) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "queue_quota_exceeded",
        format!("namespace `{namespace}` has as many queues as it may: {max}"),
        "use a queue that exists, and labels or task types to tell tasks apart; `serve.queues_per_namespace` sets the \
         limit",
    )
    .field("queue")
}
