//! The state and the order of the security layers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::middleware::from_fn_with_state;
use weaver_core::clock::Clock;

use super::authenticate::authenticate;
use super::browser::{Authority, HostName, refuse_foreign_forms, refuse_foreign_pages};
use super::failures::Failures;
use super::sessions::{SESSION_TTL, Secret, Sessions};
use super::tokens::Tokens;

/// How clients reach the server.
#[derive(Debug, Clone)]
pub struct GuardOptions {
    /// The tokens; with `None` every caller is [`Identity::local`](super::Identity::local).
    pub tokens: Option<Arc<Tokens>>,
    /// For the rate limit on failed tokens.
    pub clock: Arc<dyn Clock>,
    /// The listening address. It is an allowed `Host`, unless it is unspecified (`0.0.0.0`, `::`).
    pub listen: SocketAddr,
    /// Allowed hosts besides loopback and `localhost`, without scheme and port.
    pub hosts: Vec<String>,
    /// Whether the server terminates TLS itself.
    pub tls: bool,
    /// Whether a trusted proxy terminates TLS and sets `X-Forwarded-For` (see
    /// [`ClientAddress`](super::ClientAddress)).
    pub behind_proxy: bool,
}

/// A configured host that is not a name or an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host: use a name or an address without scheme, port or path, like jobs.example.org")]
pub struct InvalidHost(String);

/// The shared state of the security layers.
pub struct Guard {
    pub(super) tokens: Option<Arc<Tokens>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) behind_proxy: bool,
    pub(super) failures: Failures,
    sessions: Option<Sessions>,
    cookie: String,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    tls: bool,
}

impl Guard {
    /// Fails on a host that is not a name or an address.
    pub fn new(options: GuardOptions) -> Result<Self, InvalidHost> {
        let (mut names, mut addresses) = (vec!["localhost".to_owned()], vec![options.listen.ip()]);
        for host in options.hosts {
            let bare = host.parse().map(HostName::Address).ok();
            match bare.or_else(|| Authority::parse(&host).filter(|found| found.port.is_none())?.host.into()) {
                Some(HostName::Address(address)) => addresses.push(address),
                Some(HostName::Name(name)) => names.push(name.to_owned()),
                None => return Err(InvalidHost(host)),
            }
        }
        // An unspecified address is only for listening.
        addresses.retain(|address| !address.is_unspecified());
        Ok(Self {
            sessions: options.tokens.clone().map(Sessions::new),
            // Cookies ignore ports: the name has ours, so that two servers on one machine do not log each
            // other out. `__Host-`: no other host of the domain, and none without TLS, can set it.
            cookie: format!(
                "{}weaver-session-{}",
                if options.tls || options.behind_proxy { "__Host-" } else { "" },
                options.listen.port()
            ),
            tokens: options.tokens,
            clock: options.clock,
            behind_proxy: options.behind_proxy,
            failures: Failures::default(),
            names,
            addresses,
            tls: options.tls,
        })
    }

    /// None on a server without tokens.
    pub fn sessions(&self) -> Option<&Sessions> {
        self.sessions.as_ref()
    }

    /// The session cookie of a request; none if there are two.
    pub(crate) fn cookie_of(&self, headers: &HeaderMap) -> Option<Secret> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut ours = pairs.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value);
        let only = ours.next()?;
        if ours.next().is_some() { None } else { Secret::parse(only) }
    }

    /// The `Set-Cookie` value that sets the session, or deletes it.
    pub(crate) fn set_cookie(&self, secret: Option<&Secret>) -> String {
        let (value, age) = secret.map_or(("", 0), |secret| (secret.expose(), SESSION_TTL.as_secs()));
        let secure = if self.tls || self.behind_proxy { "; Secure" } else { "" };
        format!("{}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}", self.cookie)
    }

    /// Whether it is an allowed host.
    pub(super) fn answers_to(&self, host: HostName<'_>) -> bool {
        match host {
            HostName::Address(address) => address.is_loopback() || self.addresses.contains(&address),
            HostName::Name(name) => self.names.iter().any(|known| known.eq_ignore_ascii_case(name)),
        }
    }

    /// Whether responses for this host have HSTS. Not for `localhost`, where programs without TLS listen too,
    /// and not behind a proxy, which decides itself.
    pub(super) fn is_strict(&self, host: HostName<'_>) -> bool {
        self.tls && matches!(host, HostName::Name(name) if !name.eq_ignore_ascii_case("localhost"))
    }

    /// Whether this server's pages can have this scheme.
    pub(super) fn serves_scheme(&self, scheme: &str) -> bool {
        match scheme {
            "https" => self.tls || self.behind_proxy,
            "http" => !self.tls,
            _ => false,
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Guard")
            .field("tokens", &self.tokens.is_some())
            .field("names", &self.names)
            .field("addresses", &self.addresses)
            .field("tls", &self.tls)
            .field("behind_proxy", &self.behind_proxy)
            .finish_non_exhaustive()
    }
}

/// Puts the layers around a server's routes: `private` needs a token, `public` (health, static files) does
/// not, and both refuse cross-site requests and foreign hosts.
pub fn protect<S: Clone + Send + Sync + 'static>(
    private: Router<S>,
    public: Router<S>,
    guard: Arc<Guard>,
) -> Router<S> {
    // The later layer is the outer one: host and origin are checked before the token.
    private
        .layer(from_fn_with_state(Arc::clone(&guard), authenticate))
        .merge(public)
        .layer(from_fn_with_state(guard, refuse_foreign_pages))
}

/// Puts the cross-site checks around dashboard pages. Pages authenticate themselves, because a user who is
/// not logged in is redirected to the login page.
pub fn protect_pages<S: Clone + Send + Sync + 'static>(pages: Router<S>, guard: Arc<Guard>) -> Router<S> {
    pages.layer(from_fn_with_state(guard, refuse_foreign_forms))
}

#[cfg(test)]
mod tests {
    use weaver_core::clock::ManualClock;

    use super::*;

    fn cookie(tls: bool, behind_proxy: bool) -> String {
        let guard = Guard::new(GuardOptions {
            tokens: None,
            clock: Arc::new(ManualClock::default()),
            listen: SocketAddr::from(([127, 0, 0, 1], 7117)),
            hosts: Vec::new(),
            tls,
            behind_proxy,
        });
        guard.expect("no hosts").set_cookie(None)
    }

    #[test]
    fn with_tls_the_session_cookie_has_the_host_prefix() {
        for cookie in [cookie(true, false), cookie(false, true)] {
            assert!(cookie.starts_with("__Host-weaver-session-7117="), "{cookie}");
            // Browsers require these of a `__Host-` cookie.
            assert!(
                cookie.contains("; Path=/;") && cookie.ends_with("; Secure") && !cookie.contains("Domain")
            );
        }
        assert!(cookie(false, false).starts_with("weaver-session-7117="));
    }
}
