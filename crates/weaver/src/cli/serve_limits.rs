//! The limits of a server, from its settings and the system's limit on open files.

use weaver::core::network::Network;
use weaver_server::ApiLimits;
use weaver_server::serve::raise_file_limit;

use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};

const MIB: usize = 1024 * 1024;
/// In `serve.trusted_proxies`: loopback and private networks.
const PRIVATE: &str = "private";
const PRIVATE_NETWORKS: [&str; 7] =
    ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7", "fe80::/10"];

/// Raises the soft limit on open files; connections are capped by the hard one.
pub(crate) fn limits(config: &Config) -> ApiLimits {
    let count = |key| usize::try_from(config.count(key)).unwrap_or(usize::MAX);
    let wanted = count(keys::SERVE_CONNECTIONS);
    let connections_max = raise_file_limit().map_or(wanted, |allowed| wanted.min(allowed));
    if connections_max < wanted {
        tracing::warn!(
            wanted,
            connections_max,
            "serve.connections exceeds the hard limit on open files; raise it (`ulimit -Hn`, `LimitNOFILE=`)"
        );
    }
    ApiLimits {
        connections_max,
        connections_per_token: count(keys::SERVE_CONNECTIONS_PER_TOKEN),
        anonymous_per_address: count(keys::SERVE_ANONYMOUS_PER_ADDRESS),
        anonymous_timeout: config.span(keys::SERVE_ANONYMOUS_TIMEOUT),
        body_budget_bytes: count(keys::SERVE_BODY_BUDGET_MIB) * MIB,
        body_share_bytes: count(keys::SERVE_BODY_SHARE_MIB) * MIB,
        body_timeout: config.span(keys::SERVE_BODY_TIMEOUT),
        queues_per_namespace: count(keys::SERVE_QUEUES_PER_NAMESPACE),
        ..ApiLimits::default()
    }
}

/// The networks of trusted proxies; empty unless `serve.behind_proxy` is set.
pub(crate) fn proxies(config: &Config) -> Result<Vec<Network>, Failure> {
    if config.text(keys::SERVE_BEHIND_PROXY) != "true" {
        return Ok(Vec::new());
    }
    let mut networks = Vec::new();
    for name in config.names(keys::SERVE_TRUSTED_PROXIES) {
        if name == PRIVATE {
            networks.extend(PRIVATE_NETWORKS.iter().filter_map(|text| text.parse::<Network>().ok()));
            continue;
        }
        networks.push(name.parse().map_err(|reason| {
            let message = format!("serve.trusted_proxies: {reason}");
            Failure::new(Exit::Usage, message)
                .next("give addresses or networks such as 10.0.0.7 or 10.1.0.0/16")
        })?);
    }
    Ok(networks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_networks_are_networks() {
        for text in PRIVATE_NETWORKS {
            assert!(text.parse::<Network>().is_ok(), "{text}");
        }
    }
}
