//! The ports, each a thin layer over requests and snapshots.

mod admin;
mod assignments;
mod documents;
mod journal;
mod list;
mod queue;
mod runners;
mod tasks;
mod unreadable;
mod wait;

use weaver_core::error::{Invalid, Problem};

/// A limit of 0 is a caller's mistake.
fn check_limit(limit: u32) -> Result<(), Invalid> {
    if limit > 0 {
        return Ok(());
    }
    Err(Invalid::new("limit", Problem::OutOfRange { value: 0, min: 1, max: u32::MAX.into() }))
}
