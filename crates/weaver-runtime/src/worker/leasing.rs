//! Which loop leases: the fetcher, or the finisher together with its report (`finish_and_lease`), never both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weaver_core::error::Result;
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::name::Namespace;
use weaver_core::time::Monotonic;

use crate::worker::Shared;
use crate::worker::fetch::Want;

/// Set and read by the loops of one future, so that plain loads and stores do.
#[derive(Debug, Default)]
pub(crate) struct Leasing {
    /// A request is in flight.
    is_busy: AtomicBool,
    /// The last request was granted nothing: the fetcher waits for work before it asks again.
    found_nothing: AtomicBool,
    /// The worker drains: it leases nothing more.
    is_over: AtomicBool,
}

impl Leasing {
    /// Whether the caller may lease; it says [`done`](Self::done) afterwards.
    pub(super) fn begin(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed) && !self.is_busy.swap(true, Ordering::Relaxed)
    }

    pub(super) fn done(&self) {
        self.is_busy.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Whether a report's request was granted nothing since the last question.
    pub(super) fn take_found_nothing(&self) -> bool {
        self.found_nothing.swap(false, Ordering::Relaxed)
    }

    /// Nothing is leased after this, and what a request in flight is granted is released.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Shared {
    pub(super) fn lease_request(&self, namespace: Namespace, want: &Want) -> LeaseRequest {
        LeaseRequest {
            namespace,
            queues: self.options.queues.clone(),
            types: want.types.clone(),
            worker: self.options.name.clone(),
            token: (self.options.tokens)(),
            max: want.total,
            slots: want.free,
            ttl: self.options.ttl,
            assign_fallback: false,
        }
    }

    /// The request to send with a report, if the source takes both in one call and the fetcher has none in
    /// flight. Not with several namespaces: those have turns.
    pub(super) fn request_with_report(self: &Arc<Self>) -> Option<LeaseRequest> {
        if !self.source.finishes_and_leases_at_once() || self.paused.load(Ordering::Relaxed) {
            return None;
        }
        let namespaces = self.namespaces.lock();
        let [namespace] = namespaces.as_slice() else { return None };
        let namespace = namespace.clone();
        drop(namespaces);
        if !self.leasing.begin() {
            return None;
        }
        let want = self.want();
        if want.total == 0 {
            self.leasing_done();
            return None;
        }
        Some(self.lease_request(namespace, &want))
    }

    /// What the request of a report was granted.
    pub(super) fn leased_with_report(self: &Arc<Self>, leased: Result<Vec<Leased>>, sent_at: Monotonic) {
        match leased {
            Ok(leased) if leased.is_empty() => self.leasing.found_nothing.store(true, Ordering::Relaxed),
            Ok(leased) => self.accept_in_time(leased, sent_at),
            Err(error) => {
                tracing::warn!(worker = %self.options.name, %error, "lease request failed; retrying");
            }
        }
        self.leasing_done();
    }

    /// A lease request is answered; the fetcher may make the next one.
    pub(super) fn leasing_done(&self) {
        self.leasing.done();
        self.freed();
    }
}
