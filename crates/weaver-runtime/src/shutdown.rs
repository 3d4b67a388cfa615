//! Graceful shutdown: the first request drains, the second stops at once.

use tokio_util::sync::CancellationToken;

/// Stops a worker. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    now: CancellationToken,
}

impl Shutdown {
    /// A shutdown that has not been requested.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first request drains: running handlers may finish within the worker's grace period. The second
    /// stops at once. Either way, tasks that do not finish are released.
    pub fn request(&self) {
        if self.drain.is_cancelled() {
            self.now.cancel();
        }
        self.drain.cancel();
    }

    /// Requests at the first SIGINT or SIGTERM, and again at the second. Returns only if no signal handler
    /// can be installed.
    pub async fn request_on_signals(&self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        loop {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            self.request();
        }
    }

    /// Whether a shutdown was requested at least once.
    pub fn is_requested(&self) -> bool {
        self.drain.is_cancelled()
    }

    pub(crate) async fn requested(&self) {
        self.drain.cancelled().await;
    }

    pub(crate) async fn forced(&self) {
        self.now.cancelled().await;
    }
}
