//! Decorators that make any store fail, lag, repeat itself or answer from the past, and any clock go wrong.
//!
//! ```text
//! caller ─▶ FaultyStore ── plan says what happens to this call ──▶ the store, never, once or twice
//! ```
//!
//! A plan is a closure over the [`CallSite`], a [`Script`] or drawn from a seed ([`Seeded`]): every run can
//! be repeated.

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

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is carried out.
    None,
    /// It never arrives: the caller is told that the store is unavailable, and nothing is written.
    FailBefore,
    /// It is carried out and the answer gets lost: the caller is told that the store is unavailable.
    FailAfter,
    /// It arrives this much later, by the decorator's clock.
    Delay(Duration),
    /// It arrives twice; the caller gets the second answer. A [`wait`](weaver_core::queue::Queue::wait) is
    /// made once.
    Duplicate,
    /// It is answered as the same read was answered before, if it was. Reads only: `get_tasks`, `list_tasks`,
    /// `counts` and `get_document`; others are carried out.
    StaleRead,
}

/// A call, as a plan sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSite {
    /// The port's method.
    pub method: &'static str,
    /// Which call of this method it is, from 1.
    pub number: u64,
}

/// Decides what happens to each call.
///
/// # Contract
/// - Asked once per call, in the order the calls begin.
pub trait Plan: Send + Sync {
    /// What happens to this call.
    fn fault(&self, site: &CallSite) -> Fault;

    /// Told when a call to which nothing happened was carried out, before its caller hears of it.
    fn done(&self, _site: &CallSite) {}
}

impl<F: Fn(&CallSite) -> Fault + Send + Sync> Plan for F {
    fn fault(&self, site: &CallSite) -> Fault {
        self(site)
    }
}
