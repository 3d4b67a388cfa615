//! Tokens in the store: creating, listing, revoking and verifying them.

mod cache;
mod record;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use weaver_core::clock::Clock;
use weaver_core::error::Error;
use weaver_core::name::{Namespace, check_name};
use weaver_core::ports::{Cursor, DocumentKey, Documents, Expect, Page};
use weaver_core::time::Timestamp;

use self::cache::Cache;
use self::record::Record;
use super::identity::Identity;
use super::role::{Permission, Role};
use super::scope::{NAMESPACES_MAX, NamespaceScope};
use super::token_text::{TokenHash, TokenId, TokenText};

/// The document kind of tokens; internal namespace.
pub const TOKEN_KIND: &str = "weaver.token";

/// How long an expired token is kept, so that its owner gets `token_expired` and not `token_invalid`.
pub const EXPIRED_RETENTION: Duration = Duration::from_secs(3600);

/// The most expired tokens removed when one is created.
const SWEPT_AT_ONCE: u32 = 16;

/// How long a verified token is cached: a revocation takes up to this long to reach *other* servers of the
/// store. In the process that revokes, it is immediate.
pub const CACHE_TTL: Duration = Duration::from_secs(5);

/// The most tokens in the cache; beyond it the oldest is evicted.
pub const CACHED_MAX: usize = 1_024;

/// A token to create.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its owner or purpose. Tokens of one name share a lease subject ([`Identity::subject`]).
    pub name: String,
    /// The role; its permissions are in [`Permission::roles`].
    pub role: Role,
    /// The namespaces that the role applies to.
    pub namespaces: NamespaceScope,
    /// Whether it may enqueue tasks that start programs; not for viewers and workers.
    pub may_exec: bool,
    /// Must be in the future; `None`: it does not expire.
    pub expires_at: Option<Timestamp>,
    /// Its creator, as in the audit journal ([`Identity::caller`]).
    pub created_by: String,
}

/// A token as lists show it, without its secret and its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    /// For [`revoke`](Tokens::revoke), and in the audit journal.
    pub id: TokenId,
    /// Its owner or purpose; not unique.
    pub name: Arc<str>,
    /// The role; its permissions are in [`Permission::roles`].
    pub role: Role,
    /// The namespaces that the role applies to.
    pub namespaces: NamespaceScope,
    /// Whether it may enqueue tasks that start programs.
    pub may_exec: bool,
    /// By the server's clock.
    pub created_at: Timestamp,
    /// Its creator, as in the audit journal ([`Identity::caller`]).
    pub created_by: String,
    /// `None`: it does not expire.
    pub expires_at: Option<Timestamp>,
}

/// Why a token could not be created or revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// A field of [`NewToken`] is invalid.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field of [`NewToken`].
        field: &'static str,
        /// The problem, and what is valid.
        reason: String,
    },
    /// Unknown, or revoked before.
    #[error("no token {id}: it may have been revoked already; list the tokens")]
    NotFound {
        /// As given to [`Tokens::revoke`].
        id: TokenId,
    },
    /// The store failed; the token may have been created or revoked.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// Unknown, revoked, or a wrong secret: deliberately not distinguished.
    #[error("the token is invalid")]
    Unknown,
    /// Only for a caller with the right secret.
    #[error("the token expired at {at}")]
    Expired {
        /// Kept for [`EXPIRED_RETENTION`]; after that the token is unknown.
        at: Timestamp,
    },
    /// The token could not be read.
    #[error(transparent)]
    Store(#[from] Error),
}

/// The tokens of a store, with a cache of verified ones.
pub struct Tokens {
    store: Arc<dyn Documents>,
    clock: Arc<dyn Clock>,
    cache: Cache,
}

impl Tokens {
    /// `clock` is for expiry and the cache.
    pub fn new(store: Arc<dyn Documents>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, cache: Cache::default() }
    }

    /// Creates a token. The text with the secret is returned only here.
    pub async fn create(&self, new: NewToken) -> Result<(TokenText, TokenInfo), TokenError> {
        let text = TokenText::random();
        self.sweep().await;
        let info = self.register(&text, new).await?;
        Ok((text, info))
    }

    /// A page of tokens, by id; fails on an unreadable one.
    pub async fn list(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<TokenInfo>, TokenError> {
        let page = self.store.list_documents(&Namespace::internal(), TOKEN_KIND, "", cursor, limit).await?;
        let items: Result<_, Error> = page
            .items
            .iter()
            .map(|document| Ok(Record::decode(&document.key.id, &document.body)?.info))
            .collect();
        Ok(Page { items: items?, next: page.next, complete: page.complete })
    }

    /// Revokes a token: at once in this process, elsewhere within [`CACHE_TTL`].
    pub async fn revoke(&self, id: &TokenId) -> Result<(), TokenError> {
        let done = self.remove(id).await;
        // Also after an error: the delete may have been applied. And after the store, not before it, or a
        // request in between would cache the token again.
        self.cache.forget(id);
        done
    }

    /// The identity of a token, from the cache or the store.
    pub async fn verify(&self, text: &TokenText) -> Result<Identity, Unverified> {
        let id = text.id();
        // Taken before the store is read: a cached record is never older than this says.
        let asked_at = self.clock.monotonic();
        let (cached, epoch) = self.cache.get(&id, asked_at);
        let is_cached = cached.is_some();
        let record = match cached {
            Some(record) => Some(record),
            None => self.read(&id).await?.map(Arc::new),
        };
        if record.is_none() {
            self.cache.drop_entry(&id);
        }
        let expected = record.as_ref().map_or(const { &TokenHash::of_nothing() }, |record| &record.hash);
        let is_right = text.hash().matches(expected);
        let Some(record) = record.filter(|_| is_right) else {
            return Err(Unverified::Unknown);
        };
        if let Some(at) = record.info.expires_at.filter(|at| *at <= self.clock.now()) {
            return Err(Unverified::Expired { at });
        }
        let identity = record.identity.clone();
        if !is_cached {
            self.cache.put(id, record, asked_at, epoch);
        }
        Ok(identity)
    }

    /// The identity of a token without its secret: for sessions, which were started with it.
    pub(super) async fn identity_of(&self, id: &TokenId) -> Result<Identity, Unverified> {
        let asked_at = self.clock.monotonic();
        let (cached, epoch) = self.cache.get(id, asked_at);
        let record = match cached {
            Some(record) => record,
            None => {
                let Some(record) = self.read(id).await?.map(Arc::new) else {
                    self.cache.drop_entry(id);
                    return Err(Unverified::Unknown);
                };
                self.cache.put(id.clone(), Arc::clone(&record), asked_at, epoch);
                record
            }
        };
        match record.info.expires_at.filter(|at| *at <= self.clock.now()) {
            Some(at) => Err(Unverified::Expired { at }),
            None => Ok(record.identity.clone()),
        }
    }

    pub(super) fn store(&self) -> &dyn Documents {
        &*self.store
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Whether this process has verified a token with this id that it has not revoked or evicted since. Says
    /// nothing about the secret.
    pub fn has_seen(&self, id: &TokenId) -> bool {
        self.cache.contains(id)
    }

    /// Stores a token with a given text.
    pub(crate) async fn register(&self, text: &TokenText, new: NewToken) -> Result<TokenInfo, TokenError> {
        let now = self.clock.now();
        check(&new, now)?;
        let info = TokenInfo {
            id: text.id(),
            name: new.name.into(),
            role: new.role,
            namespaces: new.namespaces,
            may_exec: new.may_exec,
            created_at: now,
            created_by: new.created_by,
            expires_at: new.expires_at,
        };
        let body = Record::encode(&info, &text.hash());
        let swept_at = info.expires_at.map(|at| at.saturating_add(EXPIRED_RETENTION));
        self.store.put_document(&key(&info.id), Bytes::from(body), Expect::Absent, swept_at).await?;
        Ok(info)
    }

    /// Removes some tokens past [`EXPIRED_RETENTION`]. Failures are left for the next creation.
    async fn sweep(&self) {
        let now = self.clock.now();
        let expired = self.store.due_documents(TOKEN_KIND, now, SWEPT_AT_ONCE).await.unwrap_or_default();
        for document in expired {
            let expect = Expect::Version(document.version);
            if let Err(error) = self.store.delete_document(&document.key, expect).await {
                tracing::debug!(%error, "removing an expired token failed");
            }
        }
    }

    async fn remove(&self, id: &TokenId) -> Result<(), TokenError> {
        // Not decoded: an unreadable token must be revocable too.
        if self.store.get_document(&key(id)).await?.is_none() {
            return Err(TokenError::NotFound { id: id.clone() });
        }
        self.store.delete_document(&key(id), Expect::Anything).await?;
        Ok(())
    }

    async fn read(&self, id: &TokenId) -> Result<Option<Record>, Error> {
        let found = self.store.get_document(&key(id)).await?;
        found.map(|document| Record::decode(id.as_str(), &document.body)).transpose()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tokens").finish_non_exhaustive()
    }
}

fn check(new: &NewToken, now: Timestamp) -> Result<(), TokenError> {
    let invalid = |field, reason: String| Err(TokenError::Invalid { field, reason });
    check_name("name", &new.name).map_err(Error::Invalid)?;
    if let NamespaceScope::Only(namespaces) = &new.namespaces {
        if namespaces.is_empty() || namespaces.len() > NAMESPACES_MAX {
            let reason = format!("{} namespaces: list 1 to {NAMESPACES_MAX}, or use all", namespaces.len());
            return invalid("namespaces", reason);
        }
        if let Some(internal) = namespaces.iter().find(|name| name.is_reserved()) {
            return invalid("namespaces", format!("`{internal}` is internal: tokens cannot access it"));
        }
    }
    if new.may_exec && !Permission::EnqueueExec.is_of(new.role) {
        return invalid("may_exec", format!("role `{}` cannot enqueue: choose another role", new.role));
    }
    match new.expires_at {
        Some(at) if at <= now => invalid("expires_at", format!("{at} is in the past: use a later time")),
        _ => Ok(()),
    }
}

fn key(id: &TokenId) -> DocumentKey {
    DocumentKey::new(Namespace::internal(), TOKEN_KIND, id.as_str())
}
