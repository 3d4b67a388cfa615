//! One store decorator for every purpose: each port call becomes a [`Call`], which an [`Intercept`] handles.
//!
//! ```text
//! caller ─▶ Intercepted ── Call ──▶ Intercept::around ── Call::send, never, once or twice ──▶ the store
//!                       ◀── Answer ──
//! ```

mod call;
mod ports;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use weaver_core::error::Result;
use weaver_core::limits::Limits;
use weaver_core::ports::Store;

pub use call::{Answer, Call};

/// Handles the calls to a store: it may delay or refuse one before [`Call::send`], replace or drop the answer
/// after it, or answer without it.
///
/// # Contract
/// - The answer has the variant of the call.
#[async_trait]
pub trait Intercept: Send + Sync {
    /// Answers a call to `store`.
    async fn around(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer>;

    /// The limits of the decorated store; not asynchronous, so not a [`Call`].
    fn limits(&self, store: &Arc<dyn Store>) -> Limits {
        store.limits()
    }

    /// As [`Queue::commits_and_leases_at_once`](weaver_core::queue::Queue::commits_and_leases_at_once).
    fn commits_and_leases_at_once(&self, store: &Arc<dyn Store>) -> bool {
        store.commits_and_leases_at_once()
    }

    /// As [`Queue::audits_in_the_transaction`](weaver_core::queue::Queue::audits_in_the_transaction).
    fn audits_in_the_transaction(&self, store: &Arc<dyn Store>) -> bool {
        store.audits_in_the_transaction()
    }
}

/// A store whose calls all pass through an [`Intercept`].
pub struct Intercepted<I> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) by: I,
}

impl<I: Intercept> Intercepted<I> {
    /// Decorates `store` with an interceptor.
    pub fn of(store: Arc<dyn Store>, by: I) -> Self {
        Self { store, by }
    }

    /// Makes a call that is given as data.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer> {
        self.by.around(call, &self.store).await
    }
}

impl<I: fmt::Debug> fmt::Debug for Intercepted<I> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Intercepted").field("by", &self.by).finish_non_exhaustive()
    }
}
