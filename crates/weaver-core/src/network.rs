//! Ranges of IP addresses in CIDR notation: proxies to trust, networks that tasks may call.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Network {
    /// Whether an address is in it. An IPv4 address is never in a range of IPv6 or the other way round.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                leading(network.to_bits().into(), 32, self.prefix_bits)
                    == leading(address.to_bits().into(), 32, self.prefix_bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                leading(network.to_bits(), 128, self.prefix_bits)
                    == leading(address.to_bits(), 128, self.prefix_bits)
            }
            _ => false,
        }
    }

    /// Whether it is a single address (`/32` or `/128`).
    pub fn is_one_address(&self) -> bool {
        self.prefix_bits == bits(self.address)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn leading(value: u128, width: u8, count: u8) -> u128 {
    // Shifting by the whole width is no shift at all: "all addresses" has no leading bits.
    value.checked_shr(u32::from(width - count)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a network: write it like `10.0.0.0/8`, `fd00::/8` or `127.0.0.1`");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| wrong())?,
            None => bits(address),
        };
        if prefix_bits > bits(address) { Err(wrong()) } else { Ok(Self { address, prefix_bits }) }
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_as_it_is_written() {
        for text in ["10.0.0.0/8", "::1/128"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.0/33", "localhost", "10.0.0.0/", "/8", ""] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
