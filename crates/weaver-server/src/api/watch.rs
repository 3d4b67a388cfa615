//! Waiting for something on a caller's behalf: no longer than the caller may see it.

use std::time::Duration;

use weaver_core::name::Namespace;
use weaver_core::queue::{Interest, Wake};
use weaver_core::time::Monotonic;

use super::caller::{Caller, Permission};
use super::{Answer, AppState};
use crate::problem::stopping;
use crate::security::RECHECK_EVERY;

/// A caller who waits. Whatever it waits for, its identity is verified again on every wake-up and every
/// [`RECHECK_EVERY`]: a token that was revoked or has expired hears and gets nothing more.
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

    /// Whether the caller may still see it. Streams ask before each read: one that always has something to
    /// tell never waits.
    pub(crate) async fn check(&self) -> Answer<()> {
        Ok(self.caller.recheck(self.permission, &self.namespace).await?)
    }

    /// The same for streams, which end with the server.
    pub(crate) async fn check_stream(&self) -> Answer<()> {
        if self.state.closing.is_cancelled() {
            return Err(stopping());
        }
        self.check().await
    }

    /// Waits for the store; a server that stops ends the wait as if its time were up.
    pub(crate) async fn wait(&self, interest: Interest, timeout: Duration) -> Answer<Wake> {
        // One wait of the store for as long as it lasts: looking at the token every so often registers
        // nothing anew.
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
    pub(crate) async fn wait_until(&self, instant: Monotonic) -> Answer<()> {
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
