//! Browser sessions, and one-time login links.
//!
//! Both are documents in the store, found by the hash of a secret that only the browser (or the link) has. So
//! they survive a restart, are valid on every server of the store, and cannot be used by a reader of the
//! store.
//!
//! A session has its token's permissions. It ends with the token, when it expires, or on logout.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weaver_core::error::Error;
use weaver_core::name::Namespace;
use weaver_core::ports::{Document, DocumentKey, Expect};
use weaver_core::time::{Monotonic, Timestamp};

use super::identity::Identity;
use super::role::Role;
use super::scope::NamespaceScope;
use super::token_text::{TokenId, to_hex};
use super::tokens::{CACHE_TTL, CACHED_MAX, NewToken, TokenError, Tokens, Unverified};

/// The document kind of sessions.
pub const SESSION_KIND: &str = "weaver.session";
/// The document kind of login links.
pub const LINK_KIND: &str = "weaver.login-link";
/// The lifetime of a session.
pub const SESSION_TTL: Duration = Duration::from_secs(12 * 3600);
/// The lifetime of a login link that is not used.
pub const LINK_TTL: Duration = Duration::from_secs(3600);
/// The most expired documents removed per login.
const SWEPT_AT_ONCE: u32 = 16;

/// The secret of a session or a link: 256 random bits, in hex. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    fn random() -> Self {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the system has randomness");
        Self(to_hex(&bytes))
    }

    /// `None` unless it is 64 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == 64 && is_hex).then(|| Self(text.to_owned()))
    }

    /// The secret itself, for the cookie or the link only.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The CSRF token of the session's forms: derived, so that a leaked page does not leak the session.
    pub fn form_key(&self) -> String {
        self.hashed("weaver form")
    }

    fn id(&self) -> String {
        self.hashed("weaver session")
    }

    fn hashed(&self, purpose: &str) -> String {
        to_hex(&Sha256::new().chain_update(purpose).chain_update([0]).chain_update(&self.0).finalize())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// The stored form; the document's id is the hash of the secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    token: TokenId,
    expires_at: Timestamp,
}

/// Sessions and login links, kept as documents beside the tokens.
pub struct Sessions {
    tokens: Arc<Tokens>,
    /// Valid for [`CACHE_TTL`]. Only valid secrets are cached, so unauthenticated clients cannot fill it.
    cache: Mutex<HashMap<String, (Body, Monotonic)>>,
}

impl Sessions {
    /// With an empty cache.
    pub fn new(tokens: Arc<Tokens>) -> Self {
        Self { tokens, cache: Mutex::default() }
    }

    /// Creates a login link; its secret is valid for one login as this token.
    pub async fn make_link(&self, token: &TokenId) -> Result<Secret, Error> {
        self.make(LINK_KIND, token, LINK_TTL).await
    }

    /// The same for a local admin, who has no token: it creates a token for the browser, whose secret is
    /// never shown. The token is listed, can be revoked, and expires with the session.
    pub async fn make_admin_link(
        &self,
        created_by: &str,
        may_exec: bool,
    ) -> Result<(TokenId, Secret), TokenError> {
        let lasting = LINK_TTL.saturating_add(SESSION_TTL);
        let new = NewToken {
            name: "dashboard".to_owned(),
            role: Role::Admin,
            namespaces: NamespaceScope::All,
            may_exec,
            expires_at: Some(self.tokens.clock().now().saturating_add(lasting)),
            created_by: created_by.to_owned(),
        };
        let (_, info) = self.tokens.create(new).await?;
        let secret = self.make_link(&info.id).await?;
        Ok((info.id, secret))
    }

    /// Redeems a login link for a session. Of two concurrent attempts one succeeds.
    pub async fn redeem(&self, link: &Secret) -> Result<Option<Secret>, Error> {
        let key = key(LINK_KIND, &link.id());
        let Some(document) = self.tokens.store().get_document(&key).await? else { return Ok(None) };
        match self.tokens.store().delete_document(&key, Expect::Version(document.version)).await {
            Ok(()) => {}
            Err(Error::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        match self.live(&document) {
            Some(body) => self.begin(&body.token).await.map(Some),
            None => Ok(None),
        }
    }

    /// Starts a session with the permissions of this token.
    pub async fn begin(&self, token: &TokenId) -> Result<Secret, Error> {
        self.sweep().await;
        self.make(SESSION_KIND, token, SESSION_TTL).await
    }

    /// The identity of a session, if it and its token are valid.
    pub async fn verify(&self, secret: &Secret) -> Result<Option<Identity>, Error> {
        let id = secret.id();
        let now = self.tokens.clock().monotonic();
        let fresh = self
            .cache
            .lock()
            .get(&id)
            .filter(|(_, read_at)| now < read_at.saturating_add(CACHE_TTL))
            .cloned();
        let body = match fresh {
            Some((body, _)) => body,
            None => {
                let Some(document) = self.tokens.store().get_document(&key(SESSION_KIND, &id)).await? else {
                    self.cache.lock().remove(&id);
                    return Ok(None);
                };
                let Some(body) = self.live(&document) else { return Ok(None) };
                self.remember(id, body.clone(), now);
                body
            }
        };
        if body.expires_at <= self.tokens.clock().now() {
            return Ok(None);
        }
        match self.tokens.identity_of(&body.token).await {
            Ok(identity) => Ok(Some(identity)),
            Err(Unverified::Unknown | Unverified::Expired { .. }) => Ok(None),
            Err(Unverified::Store(error)) => Err(error),
        }
    }

    /// Ends a session at once on this server, elsewhere within [`CACHE_TTL`].
    pub async fn end(&self, secret: &Secret) -> Result<(), Error> {
        let id = secret.id();
        let done = self.tokens.store().delete_document(&key(SESSION_KIND, &id), Expect::Anything).await;
        self.cache.lock().remove(&id);
        done
    }

    fn remember(&self, id: String, body: Body, now: Monotonic) {
        let mut cache = self.cache.lock();
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        cache.insert(id, (body, now));
    }

    async fn make(&self, kind: &str, token: &TokenId, ttl: Duration) -> Result<Secret, Error> {
        let secret = Secret::random();
        let expires_at = self.tokens.clock().now().saturating_add(ttl);
        let body = Body { token: token.clone(), expires_at };
        let body = serde_json::to_vec(&body).expect("an id and an instant are always JSON");
        let key = key(kind, &secret.id());
        self.tokens.store().put_document(&key, Bytes::from(body), Expect::Absent, Some(expires_at)).await?;
        Ok(secret)
    }

    /// The document's body, unless it has expired. An unreadable one is not a session.
    fn live(&self, document: &Document) -> Option<Body> {
        let body: Body = serde_json::from_slice(&document.body).ok()?;
        (body.expires_at > self.tokens.clock().now()).then_some(body)
    }

    /// Removes some expired documents. Failures are left for a later login.
    async fn sweep(&self) {
        let now = self.tokens.clock().now();
        for kind in [SESSION_KIND, LINK_KIND] {
            let ended = self.tokens.store().due_documents(kind, now, SWEPT_AT_ONCE).await.unwrap_or_default();
            for document in ended {
                let expect = Expect::Version(document.version);
                if let Err(error) = self.tokens.store().delete_document(&document.key, expect).await {
                    tracing::debug!(%error, "removing an expired session failed");
                }
            }
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sessions").finish_non_exhaustive()
    }
}

fn key(kind: &str, id: &str) -> DocumentKey {
    DocumentKey::new(Namespace::internal(), kind, id)
}
