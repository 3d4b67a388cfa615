//! Which addresses the server may listen on.

use std::net::SocketAddr;

use weaver_server::security::{BindRefused, check_listen};

const LOCAL: [&str; 4] = ["127.0.0.1:7117", "127.8.8.8:1", "[::1]:7117", "[::ffff:127.0.0.1]:7117"];
const REACHABLE: [&str; 6] =
    ["0.0.0.0:7117", "[::]:7117", "10.0.0.1:7117", "192.168.1.1:80", "[fe80::1]:1", "[::ffff:0.0.0.0]:7117"];

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn choices() -> impl Iterator<Item = (bool, bool, bool)> {
    (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0))
}

#[test]
fn a_reachable_address_needs_tokens_and_tls_in_every_combination() {
    for text in REACHABLE {
        let address = address(text);
        for (tokens, tls, proxy) in choices() {
            let expected = match (tokens, tls || proxy) {
                (true, true) => Ok(()),
                (true, false) => Err(BindRefused::NoTls { address }),
                (false, _) => Err(BindRefused::NoTokens { address }),
            };
            assert_eq!(check_listen(address, tokens, tls, proxy), expected, "{text} {tokens} {tls} {proxy}");
        }
    }
}

#[test]
fn loopback_addresses_are_allowed_except_behind_a_proxy_without_tokens() {
    for text in LOCAL {
        let address = address(text);
        for (tokens, tls, proxy) in choices() {
            let is_open_to_all = proxy && !tokens;
            assert_eq!(check_listen(address, tokens, tls, proxy).is_err(), is_open_to_all, "{text}");
        }
    }
}

#[test]
fn a_refused_address_comes_with_the_reason_and_a_hint() {
    let public = address("0.0.0.0:7117");
    let no_tokens = check_listen(public, false, true, false).expect_err("no tokens").to_string();
    assert!(no_tokens.contains("0.0.0.0:7117") && no_tokens.contains("enable tokens"), "{no_tokens}");
    let no_tls = check_listen(public, true, false, false).expect_err("no TLS").to_string();
    assert!(no_tls.contains("certificate") && no_tls.contains("--behind-proxy"), "{no_tls}");
}
