//! Stopping in two steps: gracefully, and at once.

use tokio_util::sync::CancellationToken;

/// Tells a worker to stop. Clones are one and the same.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    drain: CancellationToken,
    now: CancellationToken,
}

impl Shutdown {
    /// Not asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks once more: first to finish what runs within the worker's grace, then to stop at once. Either way,
    /// what does not finish is given back.
    pub fn ask(&self) {
        if self.drain.is_cancelled() {
            self.now.cancel();
        }
        self.drain.cancel();
    }

    /// Asks at the first SIGINT or SIGTERM, and again at the second. Never returns.
    pub async fn ask_on_signals(&self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        loop {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            self.ask();
        }
    }

    /// Whether anybody has asked.
    pub fn is_asked(&self) -> bool {
        self.drain.is_cancelled()
    }

    pub(crate) async fn asked(&self) {
        self.drain.cancelled().await;
    }

    pub(crate) async fn asked_twice(&self) {
        self.now.cancelled().await;
    }
}
