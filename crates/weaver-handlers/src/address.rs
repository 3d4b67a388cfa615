//! SSRF protection: which addresses a task may make the server connect to. A producer must not use a task to
//! reach the server's machine, its network, or the metadata service of its cloud.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weaver_core::network::Network;

/// Why an address is refused, such as `a loopback address`; `None` if it is public or in `allowed`.
///
/// A cloud's metadata service hands out the machine's credentials, so a range does not allow it: it must be
/// listed as a single address.
pub fn refusal(address: IpAddr, allowed: &[Network]) -> Option<&'static str> {
    let mut allowing = allowed.iter().filter(|network| network.contains(address));
    if METADATA.contains(&address) || inside(address).any(|inner| METADATA.contains(&IpAddr::V4(inner))) {
        let is_named = allowing.any(Network::is_one_address);
        return (!is_named).then_some("the metadata service of a cloud");
    }
    if allowing.next().is_some() {
        return None;
    }
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

/// Metadata services of clouds; some are outside the ranges that are refused anyway.
const METADATA: [IpAddr; 9] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// The IPv4 addresses that NAT64 may translate an IPv6 address to (RFC 6052): the last 32 bits after the
/// well-known prefix `64:ff9b::/96`, and every possible position after `64:ff9b:1::/48`, where each network
/// chooses the prefix length.
fn inside(address: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
    /// Positions of the four bytes; byte 8 is skipped.
    const PLACES: [[usize; 4]; 4] = [[12, 13, 14, 15], [6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12]];
    let (bytes, places) = match address {
        IpAddr::V6(address) => match address.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, ..] => (address.octets(), &PLACES[..1]),
            [0x64, 0xff9b, 1, ..] => (address.octets(), &PLACES[..]),
            _ => ([0; 16], &PLACES[..0]),
        },
        IpAddr::V4(_) => ([0; 16], &PLACES[..0]),
    };
    places.iter().map(move |place| Ipv4Addr::from(place.map(|index| bytes[index])))
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("an unspecified address"),
        [127, ..] => Some("a loopback address"),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Some("a private address"),
        [100, 64..=127, ..] => Some("an address shared behind a carrier's NAT"),
        [169, 254, ..] => Some("a link-local address"),
        [224..=239, ..] => Some("a multicast address"),
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Some("an address reserved for special use")
        }
        [240..=255, ..] => Some("an address reserved for special use"),
        _ => None,
    }
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    // Machines without IPv4 reach public IPv4 addresses by the well-known NAT64 prefix.
    if let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = address.segments() {
        return refusal_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    }
    if address.is_loopback() {
        return Some("a loopback address");
    }
    if address.is_unspecified() {
        return Some("an unspecified address");
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] => Some("an IPv4 address written as IPv6"),
        [0xfc00..=0xfdff, ..] => Some("a unique-local address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        // Tunnels with embedded IPv4 addresses, documentation, and protocol assignments.
        [0x2002, ..] | [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => {
            Some("an address reserved for special use")
        }
        [0x2000..=0x3fff, ..] => None,
        _ => Some("an address reserved for special use"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str, allowed: &[&str]) -> Option<&'static str> {
        let allowed: Vec<Network> = allowed.iter().map(|network| network.parse().unwrap()).collect();
        refusal(address.parse().unwrap(), &allowed)
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"] {
            assert_eq!(refused(address, &[]), None, "{address}");
        }
    }

    #[test]
    fn every_kind_of_internal_address_is_refused_by_name() {
        let inner = [
            ("loopback", &["127.0.0.1", "127.255.0.1", "::1"][..]),
            ("unspecified", &["0.0.0.0", "0.1.2.3", "::"]),
            ("private", &["10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "64:ff9b::a00:1"]),
            ("carrier", &["100.64.0.1", "100.127.255.255"]),
            ("link-local", &["169.254.0.1", "fe80::1", "febf::1"]),
            ("unique-local", &["fc00::1", "fdff::1"]),
            ("multicast", &["224.0.0.1", "239.1.1.1", "ff02::1"]),
            ("written as IPv6", &["::ffff:8.8.8.8", "::ffff:127.0.0.1", "::127.0.0.1"]),
            (
                "special",
                &["255.255.255.255", "192.0.2.1", "2002:7f00:1::", "2001::1", "2001:db8::1", "64:ff9b:1::1"],
            ),
            ("metadata", &["169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"]),
        ];
        for (kind, addresses) in inner {
            for address in addresses {
                let said = refused(address, &[]).unwrap_or_else(|| panic!("{address} should be refused"));
                assert!(said.contains(kind), "{address}: {said}");
            }
        }
    }

    #[test]
    fn only_networks_that_the_operator_allows_are_exempt() {
        assert_eq!(refused("10.1.2.3", &["10.1.0.0/16"]), None);
        assert!(refused("10.2.2.3", &["10.1.0.0/16"]).is_some());
        assert_eq!(refused("::1", &["::1"]), None);
        assert_eq!(refused("192.168.1.1", &["0.0.0.0/0"]), None);
        assert!(refused("::1", &["0.0.0.0/0"]).is_some());
        assert!(refused("::ffff:127.0.0.1", &["127.0.0.0/8"]).is_some());
    }

    #[test]
    fn a_metadata_service_must_be_allowed_as_a_single_address() {
        assert!(refused("169.254.169.254", &["169.254.0.0/16", "0.0.0.0/0"]).is_some());
        assert_eq!(refused("169.254.169.254", &["169.254.169.254"]), None);
        assert_eq!(refused("64:ff9b::a83f:8110", &["64:ff9b::a83f:8110"]), None);
    }

    #[test]
    fn a_metadata_service_behind_nat64_is_refused_at_every_position_of_its_address() {
        // 168.63.129.16 is not a private address, and 169.254.169.254 is one that a range would allow.
        let metadata = [
            "64:ff9b::a83f:8110",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a83f:8110",
            "64:ff9b:1:a83f:81:1000::",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1:0:a9:fea9:fe00:0",
        ];
        for address in metadata {
            for allowed in [&[][..], &["64:ff9b::/96", "64:ff9b:1::/48", "::/0"]] {
                let said = refused(address, allowed).unwrap_or_else(|| panic!("{address} should be refused"));
                assert!(said.contains("metadata"), "{address}: {said}");
            }
        }
        assert_eq!(refused("64:ff9b:1::808:808", &["64:ff9b:1::/48"]), None);
    }
}
