//! Waiting on a caller's behalf, only while the caller's token is valid.

use std::time::Duration;

use weaver_core::name::Namespace;
use weaver_core::queue::{Interest, Wake};
use weaver_core::time::Monotonic;

use super::caller::{Caller, Permission};
use super::{ApiResult, AppState};
use crate::problem::stopping;
use crate::security::RECHECK_EVERY;

/// A caller that waits. Its token is verified again on every wake-up and every [`RECHECK_EVERY`]: one that
/// was revoked or has expired gets no more data.
pub(crate) struct Watch {
    pub(crate) state: AppState,
    pub(crate) namespace: Namespace,
    caller: Caller,
    permission: Permission,
}

impl Watch {
    pub(crate) fn new(state: AppState, caller: Caller, permission: Permission, namespace: Namespace) -> Self {
        Self { state, namespace, caller, permission }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Whether the caller may still read. Streams check before each read: a busy one never waits.
    pub(crate) async fn check(&self) -> ApiResult<()> {
        Ok(self.caller.recheck(self.permission, &self.namespace).await?)
    }

    /// The same for streams, which end on shutdown.
    pub(crate) async fn check_stream(&self) -> ApiResult<()> {
        if self.state.closing.is_cancelled() {
            return Err(stopping());
        }
        self.check().await
    }

    /// Waits for the store; on shutdown the wait ends as if it had timed out.
    pub(crate) async fn wait(&self, interest: Interest, timeout: Duration) -> ApiResult<Wake> {
        // One wait in the store for the whole time: rechecking the token does not register again.
        let mut wait = std::pin::pin!(self.state.store.wait(interest, timeout));
        loop {
            let woken = tokio::select! {
                woken = wait.as_mut() => Some(woken?),
                () = self.pause() => None,
                () = self.state.closing.cancelled() => return Ok(Wake::TimedOut),
            };
            self.check().await?;
            if let Some(woken) = woken {
                return Ok(woken);
            }
        }
    }

    /// Waits until an instant, or until the server stops.
    pub(crate) async fn wait_until(&self, instant: Monotonic) -> ApiResult<()> {
        loop {
            let next = self.state.clock.monotonic().saturating_add(RECHECK_EVERY).min(instant);
            tokio::select! {
                () = self.state.clock.sleep_until(next) => {}
                () = self.state.closing.cancelled() => return Ok(()),
            }
            self.check().await?;
            if next == instant {
                return Ok(());
            }
        }
    }

    async fn pause(&self) {
        let clock = &self.state.clock;
        clock.sleep_until(clock.monotonic().saturating_add(RECHECK_EVERY)).await;
    }
}
