//! Writing the journal: what is done at once is written together.
//!
//! ```text
//! write ──────▶ pending ──▶ flush (one at a time) ──▶ one append per namespace
//! write_soon ─▶    └─────── keep: flushes as long as there is something
//! ```
//!
//! Entries of a namespace are in the order of the deeds, as far as this server did them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weaver_core::clock::Clock;
use weaver_core::name::Namespace;
use weaver_core::ports::{Store, TrimBefore};

use super::{Deed, Line, stream};
use crate::api::caller::Caller;

/// Old entries are looked for once per so many new ones.
const TRIM_EVERY: u64 = 1024;
/// The most entries that wait to be written; whoever has one more waits with it.
const PENDING_MAX: usize = 4096;
/// The most entries of one append: with names of the greatest length they still fit one request.
const APPEND_MAX: usize = 256;

/// The audit journal of a server.
pub(crate) struct Audit {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    kept: Duration,
    written: AtomicU64,
    pending: Mutex<Pending>,
    more: Notify,
    /// Whether [`keep`](Self::keep) runs.
    is_kept: AtomicBool,
    // An async lock: it is held while the store writes, so that entries keep their order.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Pending {
    entries: HashMap<Namespace, Vec<Bytes>>,
    count: usize,
}

impl Audit {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, kept: Duration) -> Self {
        Self {
            store,
            clock,
            kept,
            written: AtomicU64::new(0),
            pending: Mutex::default(),
            more: Notify::new(),
            is_kept: AtomicBool::new(false),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    /// Writes down what was done to the server as a whole.
    pub(crate) async fn write_of_server(&self, caller: &Caller, deed: Deed) {
        self.write(caller, &Namespace::internal(), deed).await;
    }

    /// Writes down what was done, before it is acknowledged. The deed is done: if the journal cannot be
    /// written, the server's log has to do, and the caller is told the truth about the deed.
    pub(crate) async fn write(&self, caller: &Caller, namespace: &Namespace, deed: Deed) {
        self.push(caller, namespace, deed);
        self.flush().await;
    }

    /// Writes down what was done, together with what others do meanwhile: within the time of one append, and
    /// before the server stops. A crash in that time loses the entry, never the deed. For what is done by the
    /// thousand, where waiting for a second write would double the time of the first.
    pub(crate) async fn write_soon(&self, caller: &Caller, namespace: &Namespace, deed: Deed) {
        let count = self.push(caller, namespace, deed);
        if self.is_kept.load(Ordering::Acquire) && count < PENDING_MAX {
            self.more.notify_one();
        } else {
            self.flush().await;
        }
    }

    /// Writes what is pending, as long as the server runs.
    pub(crate) async fn keep(&self, closing: &CancellationToken) {
        self.is_kept.store(true, Ordering::Release);
        loop {
            tokio::select! {
                () = self.more.notified() => self.flush().await,
                () = closing.cancelled() => break,
            }
        }
        // From now on everybody writes for themselves; whoever was between the two is written by the flush.
        self.is_kept.store(false, Ordering::Release);
        self.flush().await;
    }

    /// When this returns, everything is written that was done before it was called.
    pub(crate) async fn flush(&self) {
        let _turn = self.turn.lock().await;
        let Pending { entries, .. } = std::mem::take(&mut *self.pending.lock());
        for (namespace, bodies) in entries {
            for bodies in bodies.chunks(APPEND_MAX) {
                self.append(&namespace, bodies).await;
            }
        }
    }

    fn push(&self, caller: &Caller, namespace: &Namespace, deed: Deed) -> usize {
        let Deed { action, target, detail } = deed;
        let line = Line { who: caller.name().to_owned(), action: action.to_owned(), target, detail };
        let body = serde_json::to_vec(&line).unwrap_or_default(); // Four texts can always be written.
        let mut pending = self.pending.lock();
        pending.entries.entry(namespace.clone()).or_default().push(Bytes::from(body));
        pending.count += 1;
        pending.count
    }

    async fn append(&self, namespace: &Namespace, bodies: &[Bytes]) {
        let stream = stream(namespace);
        if let Err(error) = self.store.append_entries(&stream, bodies).await {
            for body in bodies {
                let entry = String::from_utf8_lossy(body);
                tracing::error!(%error, %namespace, %entry, "not in the audit journal");
            }
            return;
        }
        let new = bodies.len() as u64;
        let before = self.written.fetch_add(new, Ordering::Relaxed);
        if before / TRIM_EVERY != (before + new) / TRIM_EVERY {
            let old = TrimBefore::Time(self.clock.now().saturating_sub(self.kept));
            if let Err(error) = self.store.trim_entries(&stream, old).await {
                tracing::warn!(%error, %namespace, "old audit entries stay for now");
            }
        }
    }
}
