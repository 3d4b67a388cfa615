//! The quota of queues per namespace: each costs a row on every page and series in `/metrics`.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::time::Monotonic;

use super::{ApiResult, AppState};
use crate::problem::Problem;

/// At the limit the queues are read again at most this often: a queue disappears with its last task.
const READ_EVERY: Duration = Duration::from_secs(1);
/// The most namespaces cached; with more, the cache is cleared.
const NAMESPACES_KEPT: usize = 1000;

/// The queues that exist, cached. Servers of one store count independently, so together they may exceed the
/// quota by a few.
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
    /// Admits all of the queues, or none.
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
    /// Refuses new queues beyond the quota. Existing queues are always admitted.
    pub(crate) async fn check(
        &self,
        state: &AppState,
        namespace: &Namespace,
        wanted: &HashSet<&QueueName>,
    ) -> ApiResult<()> {
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
        format!("namespace `{namespace}` has reached its limit of {max} queues"),
        "use an existing queue, and labels or task types to tell tasks apart; `serve.queues_per_namespace` sets the \
         limit",
    )
    .field("queue")
}
