//! Authentication and authorization.
//!
//! ```text
//! connection ─▶ listen (bind rules) ─▶ tls
//! request ─▶ browser (Host, Origin, content type) ─▶ authenticate (token ─▶ Identity) ─▶ handler: identity.require(…)?
//! ```
//!
//! - [`protect`] puts the layers around a router in the only order that is safe.
//! - [`Tokens`] creates, lists, revokes and verifies bearer tokens.
//! - [`LocalAdmins`] admits users of this machine as admins on the Unix socket, without a token.
//!   [`first_token`] registers an admin token from a file, where that socket cannot be reached.
//! - [`Permission::roles`] is the table of roles and permissions; [`Identity::require`] applies it.
//! - [`check_listen`] decides whether the server may listen on an address, [`TlsListener`] terminates TLS.
//!
//! Browsers log in with a token or a login link and hold a session ([`Sessions`]) in a cookie. The cookie is
//! enough to read; a change needs a form of the dashboard, or a bearer token.
//!
//! A namespace outside a token's scope is answered with 403, whether it exists or not. The response depends
//! on the token alone, before the store is read, so neither status nor latency reveals what exists. (404
//! would hide no more, and suggest a typo.)

mod authenticate;
mod browser;
mod client_address;
mod failures;
mod first_token;
mod guard;
mod identity;
mod lease_binding;
mod listen;
mod local_admin;
mod private;
mod recheck;
mod refusal;
mod role;
mod scope;
mod sealed_cursor;
mod sealing_key;
mod sessions;
mod tls;
mod token_text;
mod tokens;

pub use authenticate::authenticate;
pub(crate) use authenticate::{count_connection, identify, store_failed};
pub use browser::{refuse_foreign_forms, refuse_foreign_pages};
pub(crate) use client_address::last_forwarded;
pub use client_address::{ClientAddress, PeerAddress};
pub use failures::{ADDRESSES_MAX, DELAYED_MAX, FAILURE_DELAY, FAILURES_MAX, FAILURES_WINDOW};
pub use first_token::{FirstToken, FirstTokenError, first_token};
pub use guard::{Guard, GuardOptions, InvalidHost, protect, protect_pages};
pub use identity::{EXEC_TASK_TYPE, Identity, PROGRAM_TASK_TYPES};
pub(crate) use lease_binding::ForeignLease;
pub use listen::{BindRefused, check_listen};
pub use local_admin::{LocalAdmins, LocalPeer, group_id, local_subject};
pub use private::{PrivateFileError, read_private, write_private};
pub use recheck::RECHECK_EVERY;
pub(crate) use recheck::Recheck;
pub use refusal::Refusal;
pub use role::{Permission, Role, UnknownRole};
pub use scope::{INTERNAL_PREFIX, NAMESPACES_MAX, NamespaceScope};
pub use sealing_key::SERVER_KEY_KIND;
pub(crate) use sealing_key::{SealingKey, ServerKey};
pub use sessions::{LINK_KIND, LINK_TTL, SESSION_KIND, SESSION_TTL, Secret, Sessions};
pub use tls::{HANDSHAKE_TIMEOUT, HANDSHAKES_MAX, HANDSHAKES_PER_ADDRESS, TlsError, TlsListener, load_tls};
pub use token_text::{NotAToken, TOKEN_PREFIX, TokenHash, TokenId, TokenText};
pub use tokens::{
    CACHE_TTL, CACHED_MAX, EXPIRED_RETENTION, NewToken, TOKEN_KIND, TokenError, TokenInfo, Tokens, Unverified,
};
