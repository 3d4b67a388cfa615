//! Writing the audit journal, in group commits.
//!
//! ```text
//! write ──────▶ pending ──▶ flush (one at a time) ──▶ one append per namespace
//! write_soon ─▶    └─────── run_flusher: flushes in the background until shutdown
//! ```
//!
//! This server's entries of a namespace are in the order of the actions.

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

use super::{AuditRecord, Line, stream};
use crate::api::caller::Caller;

/// Entries past their retention are trimmed once per so many new ones.
const TRIM_EVERY: u64 = 1024;
/// The most entries that wait to be written. Beyond it `write_soon` flushes itself (backpressure).
const PENDING_MAX: usize = 4096;
/// The most entries of one append: with names of maximal length they still fit one request.
const APPEND_MAX: usize = 256;

pub(crate) struct Audit {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    retention: Duration,
    written: AtomicU64,
    pending: Mutex<Pending>,
    more: Notify,
    has_flusher: AtomicBool,
    // An async lock: it is held while the store writes, so that entries stay in order.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Pending {
    entries: HashMap<Namespace, Vec<Bytes>>,
    count: usize,
}

impl Audit {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, retention: Duration) -> Self {
        Self {
            store,
            clock,
            retention,
            written: AtomicU64::new(0),
            pending: Mutex::default(),
            more: Notify::new(),
            has_flusher: AtomicBool::new(false),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    /// For actions on the server as a whole, such as creating a token.
    pub(crate) async fn write_of_server(&self, caller: &Caller, record: AuditRecord) {
        self.write(caller, &Namespace::internal(), record).await;
    }

    /// Writes an entry before the request is acknowledged. The action has been applied: if the journal cannot
    /// be written, the entry goes to the server's log, and the request still succeeds.
    pub(crate) async fn write(&self, caller: &Caller, namespace: &Namespace, record: AuditRecord) {
        self.push(caller, namespace, record);
        self.flush().await;
    }

    /// Writes an entry in the background, in a group commit with others: within the time of one append, and
    /// before the server stops. A crash in that time loses the entry, never the action. For frequent actions,
    /// where waiting for a second write would double the latency of the first.
    pub(crate) async fn write_soon(&self, caller: &Caller, namespace: &Namespace, record: AuditRecord) {
        let count = self.push(caller, namespace, record);
        if self.has_flusher.load(Ordering::Acquire) && count < PENDING_MAX {
            self.more.notify_one();
        } else {
            self.flush().await;
        }
    }

    /// Writes pending entries until the server stops.
    pub(crate) async fn run_flusher(&self, closing: &CancellationToken) {
        self.has_flusher.store(true, Ordering::Release);
        loop {
            tokio::select! {
                () = self.more.notified() => self.flush().await,
                () = closing.cancelled() => break,
            }
        }
        // From now on `write_soon` flushes itself; an entry pushed just before is written by this flush.
        self.has_flusher.store(false, Ordering::Release);
        self.flush().await;
    }

    /// When this returns, every entry pushed before the call is written.
    pub(crate) async fn flush(&self) {
        let _turn = self.turn.lock().await;
        let Pending { entries, .. } = std::mem::take(&mut *self.pending.lock());
        for (namespace, bodies) in entries {
            for bodies in bodies.chunks(APPEND_MAX) {
                self.append(&namespace, bodies).await;
            }
        }
    }

    fn push(&self, caller: &Caller, namespace: &Namespace, record: AuditRecord) -> usize {
        let AuditRecord { action, target, detail } = record;
        let line =
            Line { who: caller.name().to_owned(), action: action.to_owned(), target, detail, tasks: None };
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
                tracing::error!(%error, %namespace, %entry, "audit entry not written to the journal");
            }
            return;
        }
        self.trim_if_due(namespace, bodies.len() as u64).await;
    }

    /// Trims the stream once per so many entries; the store itself wrote those of an enqueue.
    pub(crate) async fn trim_if_due(&self, namespace: &Namespace, new: u64) {
        let before = self.written.fetch_add(new, Ordering::Relaxed);
        if before / TRIM_EVERY != (before + new) / TRIM_EVERY {
            let old = TrimBefore::Time(self.clock.now().saturating_sub(self.retention));
            if let Err(error) = self.store.trim_entries(&stream(namespace), old).await {
                tracing::warn!(%error, %namespace, "trimming old audit entries failed");
            }
        }
    }
}
