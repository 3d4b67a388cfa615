//! How much an embedded store keeps, and what it may use.

use std::time::Duration;

use weaver_core::limits::{Limits, RETENTION_DEFAULT};

/// How much an [`EmbeddedStore`](crate::EmbeddedStore) keeps, and what it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// What it takes.
    pub limits: Limits,
    /// How long finished tasks are kept.
    pub retention: Duration,
    /// How many finished tasks are kept; `None`: all of them, for as long as `retention` says.
    pub retention_count: Option<u64>,
    /// How long a unique key is remembered (at least as long as finished tasks are kept).
    pub idempotency_ttl: Duration,
    /// How many changes are kept for readers that lag behind; one that lags more is told to resync.
    pub ring_capacity: usize,
    /// How much memory pages of the file may take, in bytes.
    pub page_cache_bytes: usize,
    /// How much memory records on their way from enqueue to lease may take, in bytes.
    pub record_cache_bytes: usize,
}

impl EmbeddedOptions {
    /// How long a unique key is remembered.
    pub(crate) fn unique_for(&self) -> Duration {
        self.idempotency_ttl.max(self.retention)
    }
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        const MIB: usize = 1024 * 1024;
        Self {
            limits: Limits::default(),
            retention: RETENTION_DEFAULT,
            retention_count: None,
            idempotency_ttl: 7 * DAY,
            ring_capacity: 65_536,
            page_cache_bytes: 256 * MIB,
            record_cache_bytes: 32 * MIB,
        }
    }
}
