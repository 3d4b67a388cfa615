//! Failed tokens, counted per address.
//!
//! Nobody guesses 256 bits; what this limits is the work and the noise that trying makes. Whoever is over the limit is
//! still listened to with tokens this process has seen to be good: one worker with an old token must not lock out the
//! rest of its machine, which shares its address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;
use weaver_core::time::Monotonic;

use super::client_address::ClientAddress;

/// How many failures an address has per [`FAILURES_WINDOW`].
pub const FAILURES_MAX: u32 = 20;

/// How long failures count, from the first.
pub const FAILURES_WINDOW: Duration = Duration::from_secs(60);

/// The most addresses counted at a time. When there are more the oldest count is dropped: this bounds memory, and
/// somebody with that many addresses is not stopped by counting them.
pub const ADDRESSES_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct Failures {
    windows: Mutex<HashMap<IpAddr, Window>>,
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
}

impl Failures {
    /// How long this address has to wait, if it has used up its failures.
    pub(super) fn wait(&self, address: ClientAddress, now: Monotonic) -> Option<Duration> {
        let window = *self.windows.lock().get(&network(address))?;
        let is_over = window.failures >= FAILURES_MAX && now < window.ends_at();
        is_over.then(|| window.ends_at().0.saturating_sub(now.0))
    }

    /// Counts one more.
    pub(super) fn count(&self, address: ClientAddress, now: Monotonic) {
        let mut windows = self.windows.lock();
        let network = network(address);
        if !windows.contains_key(&network) && windows.len() >= ADDRESSES_MAX {
            let oldest =
                windows.iter().min_by_key(|(_, window)| window.began_at).map(|(address, _)| *address);
            oldest.and_then(|address| windows.remove(&address));
        }
        let fresh = Window { began_at: now, failures: 0 };
        let window = windows.entry(network).or_insert(fresh);
        if now >= window.ends_at() {
            *window = fresh;
        }
        window.failures = window.failures.saturating_add(1);
    }
}

/// One IPv6 customer has a /64 at least: its addresses count as one.
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
            failures.count(v4(number), NOW);
        }
        assert_eq!(failures.windows.lock().len(), ADDRESSES_MAX);
    }

    #[test]
    fn an_address_is_let_in_again_when_its_window_ends() {
        let failures = Failures::default();
        (0..FAILURES_MAX).for_each(|_| failures.count(v4(1), NOW));
        assert_eq!(failures.wait(v4(1), NOW), Some(FAILURES_WINDOW));
        assert_eq!(failures.wait(v4(2), NOW), None);
        assert_eq!(failures.wait(v4(1), NOW.saturating_add(FAILURES_WINDOW)), None);
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let failures = Failures::default();
        for host in 0..u128::from(FAILURES_MAX) {
            let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | host);
            failures.count(ClientAddress(IpAddr::V6(address)), NOW);
        }
        let another = Ipv6Addr::from_bits(0x2001_0db8 << 96 | 0xffff);
        assert!(failures.wait(ClientAddress(IpAddr::V6(another)), NOW).is_some());
    }
}
