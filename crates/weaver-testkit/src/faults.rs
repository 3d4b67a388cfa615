//! Fault injection for stores and clocks: errors, delays, duplicates, stale reads, skew and jumps.
//!
//! ```text
//! caller ─▶ FaultyStore ── the plan picks a fault for this call ──▶ the store, never, once or twice
//! ```
//!
//! A plan is a closure over the [`CallSite`], a [`Script`], or drawn from a seed ([`Seeded`]), so every run
//! is reproducible.

mod clock;
mod jumping;
mod plan;
mod store;
mod unreadable;

use std::time::Duration;

pub use clock::SkewedClock;
pub use jumping::JumpingClock;
pub(crate) use plan::split_mix;
pub use plan::{Rates, Script, Seeded};
pub use store::{Faults, FaultyStore};

/// The fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault: the call is executed.
    None,
    /// The call never arrives: the caller gets `Unavailable`, and nothing is written.
    FailBefore,
    /// The call is executed and its answer lost: the caller gets `Unavailable`.
    FailAfter,
    /// The call arrives this much later, by the decorator's clock.
    Delay(Duration),
    /// The call arrives twice; the caller gets the second answer. A [`wait`](weaver_core::queue::Queue::wait)
    /// is made once.
    Duplicate,
    /// A stale read: the answer of an earlier identical read, if there was one. Only for `get_tasks`,
    /// `list_tasks`, `counts` and `get_document`; other calls are executed.
    StaleRead,
}

/// Identifies a call for a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSite {
    /// Name of the port's method, such as `enqueue_batch`.
    pub method: &'static str,
    /// Ordinal of this call among those of the method, from 1.
    pub number: u64,
}

/// Picks the fault of each call.
///
/// # Contract
/// - Called once per call, in the order the calls begin.
pub trait Plan: Send + Sync {
    /// The fault for this call.
    fn fault(&self, site: &CallSite) -> Fault;

    /// Called after a call without a fault was executed, before its caller gets the answer.
    fn done(&self, _site: &CallSite) {}
}

impl<F: Fn(&CallSite) -> Fault + Send + Sync> Plan for F {
    fn fault(&self, site: &CallSite) -> Fault {
        self(site)
    }
}
