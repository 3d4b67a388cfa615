//! Connection limits and backpressure (ADR 0023).
//!
//! ```text
//! accepted ─▶ anonymous (limit per address) ─▶ authenticated (limits per token, and in total)
//!     └─────▶ waits unread, until a place is free or it times out
//!                 └─▶ health and login: a few places of their own
//! ```
//!
//! Anonymous and authenticated connections are counted separately: ten thousand workers cannot lock out a
//! health check or a login, and unauthenticated sockets cannot lock out workers.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::slot::{Held, Slot};

/// The most connections for health and login beyond the limit of their address.
const HEALTH_MAX: usize = 64;
/// Beyond so many addresses, those without a connection are dropped.
const ADDRESSES_KEPT: usize = 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    pub(crate) all: usize,
    /// Of `all`, those reserved for anonymous connections.
    pub(crate) reserved: usize,
    /// Anonymous connections of one address.
    pub(crate) per_address: usize,
    pub(crate) per_token: usize,
}

/// Counts the connections of a server.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: ConnectionLimits,
    health: Arc<Semaphore>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    addresses: HashMap<IpAddr, Arc<Semaphore>>,
    tokens: HashMap<Arc<str>, usize>,
    /// Of all tokens, and of proxies.
    known: usize,
    /// Including those that wait.
    anonymous: usize,
    /// Waiting connections, oldest first; the cancellation token evicts one.
    waiting: VecDeque<(u64, CancellationToken)>,
    next_wait: u64,
}

/// Which connection limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The limit per token.
    Token(usize),
    /// The limit of all tokens together.
    Server,
}

impl Admission {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        let health = Arc::new(Semaphore::new(HEALTH_MAX));
        Arc::new(Self { limits, health, counts: Mutex::default() })
    }

    /// Counts a new anonymous connection. At the limit, the one that has waited longest is evicted; `None`
    /// if none waits.
    pub(super) fn arrive(self: &Arc<Self>) -> Option<Arrival> {
        let mut counts = self.counts.lock();
        if counts.anonymous >= self.limits.reserved.max(1) {
            counts.waiting.pop_front()?.1.cancel();
        }
        counts.anonymous += 1;
        Some(Arrival(Arc::clone(self)))
    }

    /// The places of an address, or of its IPv6 /64.
    pub(super) fn places(&self, address: IpAddr) -> Arc<Semaphore> {
        let mut counts = self.counts.lock();
        if counts.addresses.len() >= ADDRESSES_KEPT {
            counts.addresses.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let places = || Arc::new(Semaphore::new(self.limits.per_address));
        Arc::clone(counts.addresses.entry(network_of(address)).or_insert_with(places))
    }

    /// A place for health or login.
    pub(super) fn health(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.health).try_acquire_owned().ok()
    }

    /// Registers a waiting connection; `evicted` is cancelled when it has to make room.
    pub(super) fn wait(self: &Arc<Self>) -> Waiting {
        let mut counts = self.counts.lock();
        let (number, evicted) = (counts.next_wait, CancellationToken::new());
        counts.next_wait += 1;
        counts.waiting.push_back((number, evicted.clone()));
        Waiting { admission: Arc::clone(self), number, evicted }
    }

    /// Counts a connection of a trusted proxy, whose requests have different callers.
    pub(super) fn proxied(self: &Arc<Self>) -> Option<Slot> {
        self.take_known().then(|| Slot::new(Arc::clone(self), Held::Proxied))
    }

    fn take_known(&self) -> bool {
        let mut counts = self.counts.lock();
        let is_room = counts.known < self.limits.all.saturating_sub(self.limits.reserved).max(1);
        counts.known += usize::from(is_room);
        is_room
    }

    pub(super) fn leave_known(&self) {
        self.counts.lock().known -= 1;
    }

    pub(super) fn leave_anonymous(&self) {
        self.counts.lock().anonymous -= 1;
    }

    pub(super) fn take_token(&self, token: &Arc<str>) -> Result<(), Full> {
        let max = self.limits.per_token;
        if self.counts.lock().tokens.get(token).copied().unwrap_or(0) >= max {
            return Err(Full::Token(max));
        }
        if !self.take_known() {
            return Err(Full::Server);
        }
        *self.counts.lock().tokens.entry(Arc::clone(token)).or_default() += 1;
        Ok(())
    }

    pub(super) fn leave_token(&self, token: &Arc<str>) {
        let mut counts = self.counts.lock();
        counts.known -= 1;
        if let Some(count) = counts.tokens.get_mut(token) {
            *count -= 1;
            if *count == 0 {
                counts.tokens.remove(token);
            }
        }
    }

    /// Connections of tokens and proxies, and anonymous ones.
    pub(crate) fn connected(&self) -> (usize, usize) {
        let counts = self.counts.lock();
        (counts.known, counts.anonymous)
    }
}

/// An IPv6 client can choose among 2^64 addresses: its /64 counts as one.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// An anonymous connection that was counted.
#[derive(Debug)]
pub(super) struct Arrival(pub(super) Arc<Admission>);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.leave_anonymous();
    }
}

/// A connection that waits for a place.
pub(super) struct Waiting {
    admission: Arc<Admission>,
    number: u64,
    pub(super) evicted: CancellationToken,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut counts = self.admission.counts.lock();
        if let Ok(place) = counts.waiting.binary_search_by_key(&self.number, |(number, _)| *number) {
            counts.waiting.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Arc<Admission> {
        Admission::new(ConnectionLimits { all: 5, reserved: 2, per_address: 1, per_token: 2 })
    }

    #[test]
    fn a_token_has_its_limit_and_all_tokens_leave_the_reserve_free() {
        let admission = admission();
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        for _ in 0..2 {
            assert_eq!(admission.take_token(&a), Ok(()));
        }
        assert_eq!(admission.take_token(&a), Err(Full::Token(2)));
        assert_eq!(admission.take_token(&b), Ok(()));
        assert_eq!(admission.take_token(&b), Err(Full::Server));
        assert!(admission.arrive().is_some());
        admission.leave_token(&a);
        assert_eq!(admission.take_token(&b), Ok(()));
    }

    #[test]
    fn the_connection_that_waited_longest_is_evicted() {
        let admission = admission();
        let _held = [admission.arrive(), admission.arrive()];
        assert!(admission.arrive().is_none(), "none waits");
        let (first, second) = (admission.wait(), admission.wait());
        assert!(admission.arrive().is_some());
        assert!(first.evicted.is_cancelled() && !second.evicted.is_cancelled());
    }

    #[test]
    fn addresses_of_one_network_share_their_connection_limit() {
        let admission = admission();
        let places = |text: &str| admission.places(text.parse().unwrap());
        assert!(Arc::ptr_eq(&places("2001:db8:0:1::1"), &places("2001:db8:0:1:ffff::2")));
        assert!(!Arc::ptr_eq(&places("2001:db8:0:1::1"), &places("2001:db8:0:2::1")));
        assert!(Arc::ptr_eq(&places("::ffff:192.0.2.1"), &places("192.0.2.1")));
        assert!(!Arc::ptr_eq(&places("192.0.2.2"), &places("192.0.2.1")));
    }
}
