//! Limits of a store, and the checks that enforce them.

use std::time::Duration;

use crate::error::{Invalid, Problem};

/// The largest payload of a task by default: 1 MiB.
pub const PAYLOAD_MAX_BYTES_DEFAULT: usize = 1024 * 1024;
/// The most members of one batch by default.
pub const BATCH_MAX_DEFAULT: usize = 10_000;
/// How long a durable store keeps finished tasks by default: 30 days.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most items one page of a list may have.
pub const PAGE_MAX: u32 = 1000;

/// A store's own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest payload, in bytes.
    pub max_payload_bytes: usize,
    /// The most members of one batch.
    pub max_batch: usize,
    /// How long finished tasks are kept until the maintenance of workers purges them; `None`: the store
    /// purges them itself.
    pub retention: Option<Duration>,
}

impl Limits {
    /// Refuses a batch of more than `max_batch` members. An empty one is accepted and does nothing.
    pub fn check_batch(&self, field: &'static str, members: usize) -> Result<(), Invalid> {
        if members <= self.max_batch {
            return Ok(());
        }
        let problem = Problem::OutOfRange { value: members as u64, min: 0, max: self.max_batch as u64 };
        Err(Invalid::new(field, problem))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_payload_bytes: PAYLOAD_MAX_BYTES_DEFAULT, max_batch: BATCH_MAX_DEFAULT, retention: None }
    }
}

/// Refuses pages of zero or of more than [`PAGE_MAX`] items.
pub fn check_page(limit: u32) -> Result<(), Invalid> {
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(());
    }
    Err(Invalid::new("limit", Problem::OutOfRange { value: limit.into(), min: 1, max: PAGE_MAX.into() }))
}
