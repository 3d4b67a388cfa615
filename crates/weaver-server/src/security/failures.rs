//! The rate limit on failed tokens, per address and per token id.
//!
//! 256 bits cannot be guessed; this limits the load and the log lines of attempts. The token is always
//! verified first: a valid one is accepted at once, however many failures came from its address or with its
//! id. Only failures are delayed, and only so many at a time, so that they do not delay other requests.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use weaver_core::time::Monotonic;

use super::client_address::ClientAddress;
use super::token_text::TokenId;

/// Failures of an address, or of a token id, that are answered without delay per [`FAILURES_WINDOW`].
pub const FAILURES_MAX: u32 = 20;

/// The window of the rate limit, from the first failure.
pub const FAILURES_WINDOW: Duration = Duration::from_secs(60);

/// The delay of each failure beyond [`FAILURES_MAX`].
pub const FAILURE_DELAY: Duration = Duration::from_secs(1);

/// The most failures that are delayed at a time; more are answered at once, and their connections closed.
pub const DELAYED_MAX: usize = 64;

/// The most addresses, and token ids, counted at a time; beyond it the oldest count is dropped. This bounds
/// memory: an attacker with that many addresses is not stopped by counting them.
pub const ADDRESSES_MAX: usize = 4_096;

pub(super) struct Failures {
    addresses: Windows<IpAddr>,
    ids: Windows<TokenId>,
    /// Refused requests, for sampling the log.
    refusals: Windows<IpAddr>,
    pub(super) delayed: Semaphore,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            addresses: Windows::default(),
            ids: Windows::default(),
            refusals: Windows::default(),
            delayed: Semaphore::new(DELAYED_MAX),
        }
    }
}

impl Failures {
    /// Counts a failure of an address and of a known token id. Returns the rest of the window if one of them
    /// exceeds the limit.
    pub(super) fn count(
        &self,
        address: ClientAddress,
        id: Option<TokenId>,
        now: Monotonic,
    ) -> Option<Duration> {
        let of_address = self.addresses.count(network(address), now);
        let of_id = id.map(|id| self.ids.count(id, now));
        [Some(of_address), of_id].into_iter().flatten().filter_map(|window| window.exceeded(now)).max()
    }

    /// The address's count in this window if the refusal is to be logged: the 1st, 2nd, 4th, 8th, …
    pub(super) fn sample(&self, address: ClientAddress, now: Monotonic) -> Option<u32> {
        Some(self.refusals.count(network(address), now).failures).filter(|count| count.is_power_of_two())
    }
}

#[derive(Clone, Copy)]
struct Window {
    began_at: Monotonic,
    failures: u32,
}

impl Window {
    fn ends_at(&self) -> Monotonic {
        self.began_at.saturating_add(FAILURES_WINDOW)
    }

    /// The rest of the window, if the limit is exceeded.
    fn exceeded(&self, now: Monotonic) -> Option<Duration> {
        (self.failures > FAILURES_MAX).then(|| self.ends_at().0.saturating_sub(now.0))
    }
}

struct Windows<K>(Mutex<HashMap<K, Window>>);

impl<K> Default for Windows<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> Windows<K> {
    fn count(&self, key: K, now: Monotonic) -> Window {
        let mut windows = self.0.lock();
        if !windows.contains_key(&key) && windows.len() >= ADDRESSES_MAX {
            let oldest = windows.iter().min_by_key(|(_, window)| window.began_at).map(|(key, _)| key.clone());
            oldest.and_then(|key| windows.remove(&key));
        }
        let fresh = Window { began_at: now, failures: 0 };
        let window = windows.entry(key).or_insert(fresh);
        if now >= window.ends_at() {
            *window = fresh;
        }
        window.failures = window.failures.saturating_add(1);
        *window
    }
}

/// An IPv6 customer has at least a /64: its addresses count as one.
fn network(address: ClientAddress) -> IpAddr {
    match address.0 {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW: Monotonic = Monotonic(Duration::from_secs(100));

    fn v4(number: u32) -> ClientAddress {
        ClientAddress(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn memory_is_bounded_however_many_addresses_fail() {
        let failures = Failures::default();
        for number in 0..(ADDRESSES_MAX as u32 + 100) {
            failures.count(v4(number), None, NOW);
        }
        assert_eq!(failures.addresses.0.lock().len(), ADDRESSES_MAX);
    }

    #[test]
    fn failures_of_an_address_are_not_delayed_in_the_next_window() {
        let failures = Failures::default();
        (0..FAILURES_MAX).for_each(|_| assert_eq!(failures.count(v4(1), None, NOW), None));
        assert_eq!(failures.count(v4(1), None, NOW), Some(FAILURES_WINDOW));
        assert_eq!(failures.count(v4(2), None, NOW), None);
        assert_eq!(failures.count(v4(1), None, NOW.saturating_add(FAILURES_WINDOW)), None);
    }

    #[test]
    fn one_token_id_is_rate_limited_across_all_addresses() {
        let failures = Failures::default();
        let id: TokenId = "0123456789abcdef".parse().expect("an id");
        (0..FAILURES_MAX)
            .for_each(|number| assert_eq!(failures.count(v4(number), Some(id.clone()), NOW), None));
        assert!(failures.count(v4(1000), Some(id), NOW).is_some());
        assert!(failures.count(v4(1000), None, NOW).is_none());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let failures = Failures::default();
        let of = |host: u128| ClientAddress(IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | host)));
        for host in 0..u128::from(FAILURES_MAX) {
            failures.count(of(host), None, NOW);
        }
        assert!(failures.count(of(0xffff), None, NOW).is_some());
    }

    #[test]
    fn the_log_has_fewer_lines_the_more_requests_are_refused() {
        let failures = Failures::default();
        let logged = (0..1000).filter_map(|_| failures.sample(v4(1), NOW)).collect::<Vec<_>>();
        assert_eq!(logged, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(failures.sample(v4(1), NOW.saturating_add(FAILURES_WINDOW)), Some(1));
    }
}
