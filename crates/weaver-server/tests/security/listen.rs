//! Which addresses may be served.

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
fn an_address_others_reach_needs_tokens_and_encryption_in_every_combination() {
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
fn this_machines_own_addresses_are_served_unless_a_proxy_would_open_them_to_all() {
    for text in LOCAL {
        let address = address(text);
        for (tokens, tls, proxy) in choices() {
            let is_open_to_all = proxy && !tokens;
            assert_eq!(check_listen(address, tokens, tls, proxy).is_err(), is_open_to_all, "{text}");
        }
    }
}

#[test]
fn a_refused_address_comes_with_the_reason_and_what_to_do() {
    let public = address("0.0.0.0:7117");
    let no_tokens = check_listen(public, false, true, false).expect_err("no tokens").to_string();
    assert!(no_tokens.contains("0.0.0.0:7117") && no_tokens.contains("switch tokens on"), "{no_tokens}");
    let no_tls = check_listen(public, true, false, false).expect_err("no TLS").to_string();
    assert!(no_tls.contains("certificate") && no_tls.contains("--behind-proxy"), "{no_tls}");
}
