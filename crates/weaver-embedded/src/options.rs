//! Retention and memory limits of an embedded store.

use std::time::Duration;

use weaver_core::limits::{Limits, RETENTION_DEFAULT};

/// Retention and memory limits of an [`EmbeddedStore`](crate::EmbeddedStore).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Maximum payload and batch sizes.
    pub limits: Limits,
    /// How long finished tasks are kept before they are purged.
    pub retention: Duration,
    /// Maximum number of finished tasks; `None` (default): unlimited within `retention`.
    pub retention_count: Option<u64>,
    /// How long a unique key is remembered, at least `retention`. Default: 7 days.
    pub idempotency_ttl: Duration,
    /// Changes kept in memory for readers; one that lags further behind must resync. Default: 65,536.
    pub change_log_capacity: usize,
    /// Size of redb's page cache, in bytes. Default: 256 MiB.
    pub page_cache_bytes: usize,
    /// Size of the cache of waiting records, in bytes. Default: 32 MiB.
    pub record_cache_bytes: usize,
}

impl EmbeddedOptions {
    /// Lifetime of a unique key: never shorter than retention, so that a stored task keeps its key.
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
            change_log_capacity: 65_536,
            page_cache_bytes: 256 * MIB,
            record_cache_bytes: 32 * MIB,
        }
    }
}
