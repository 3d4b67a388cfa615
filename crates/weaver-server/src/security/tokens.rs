//! Tokens in the store: made, listed, revoked, verified.

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

/// The kind of the documents tokens are kept in.
pub const TOKEN_KIND: &str = "weaver.token";

/// How long an expired token is kept, so that its owner is told that it expired and not that it is unknown.
pub const EXPIRED_KEPT: Duration = Duration::from_secs(3600);

/// How many that expired are removed when a new one is made.
const SWEPT_AT_ONCE: u32 = 16;

/// How long a verified token is believed without asking the store again: what revoking takes to reach *other*
/// servers on the same store. In the process that revokes it is immediate.
pub const CACHE_TTL: Duration = Duration::from_secs(5);

/// The most tokens remembered.
pub const CACHED_MAX: usize = 1_024;

/// What a new token shall be.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// For people: whose it is, or what for.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Where.
    pub namespaces: NamespaceScope,
    /// Whether it may enqueue tasks that start programs.
    pub may_exec: bool,
    /// When it stops being good; never, if there is no such instant.
    pub expires_at: Option<Timestamp>,
    /// Who makes it ([`Identity::caller`]).
    pub created_by: String,
}

/// A token as lists show it, without anything that could be used in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    /// Names it, in `revoke` and in the audit journal.
    pub id: TokenId,
    /// For people.
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
    /// Where.
    pub namespaces: NamespaceScope,
    /// Whether it may enqueue tasks that start programs.
    pub may_exec: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// When it stops being good.
    pub expires_at: Option<Timestamp>,
}

/// Why a token could not be made or revoked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// What was asked for makes no sense.
    #[error("{field}: {reason}")]
    Invalid {
        /// The field that is wrong.
        field: &'static str,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// There is none with this id.
    #[error("no token {id}: it may have been revoked already; list the tokens to see what there is")]
    NotFound {
        /// What was asked for.
        id: TokenId,
    },
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Why a token is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// Never made, revoked, or not the whole secret: these are not told apart.
    #[error("the token is not known here")]
    Unknown,
    /// It was good once. Only said to somebody who has the whole secret.
    #[error("the token expired at {at}")]
    Expired {
        /// When.
        at: Timestamp,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] Error),
}

/// The tokens of a store.
pub struct Tokens {
    store: Arc<dyn Documents>,
    clock: Arc<dyn Clock>,
    cache: Cache,
}

impl Tokens {
    /// The tokens kept in a store.
    pub fn new(store: Arc<dyn Documents>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, cache: Cache::default() }
    }

    /// Makes a token. The text is given out here and never again.
    pub async fn create(&self, new: NewToken) -> Result<(TokenText, TokenInfo), TokenError> {
        let text = TokenText::random();
        self.sweep().await;
        let info = self.register(&text, new).await?;
        Ok((text, info))
    }

    /// Some of the tokens, by id.
    pub async fn list(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<TokenInfo>, TokenError> {
        let page = self.store.list_documents(&Namespace::internal(), TOKEN_KIND, "", cursor, limit).await?;
        let items: Result<_, Error> = page
            .items
            .iter()
            .map(|document| Ok(Record::decode(&document.key.id, &document.body)?.info))
            .collect();
        Ok(Page { items: items?, next: page.next, complete: page.complete })
    }

    /// Ends a token. When this returns it is good for nothing in this process; elsewhere within
    /// [`CACHE_TTL`].
    pub async fn revoke(&self, id: &TokenId) -> Result<(), TokenError> {
        let done = self.remove(id).await;
        // Also after an error: the store may have done it and failed to say so. And after the store, not
        // before it, or a request in between would remember the token again.
        self.cache.forget(id);
        done
    }

    /// Whose token this is.
    pub async fn verify(&self, text: &TokenText) -> Result<Identity, Unverified> {
        let id = text.id();
        // Read before the store is: what is believed from now on is at most this old.
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

    /// Who a token is, for somebody who has shown in another way that it is theirs: a session that was begun
    /// with it.
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

    /// Whether a token with this id has been verified by this process and not been revoked since. Says
    /// nothing about the secret.
    pub fn has_seen(&self, id: &TokenId) -> bool {
        self.cache.contains(id)
    }

    /// Makes a token of a text.
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
        let swept_at = info.expires_at.map(|at| at.saturating_add(EXPIRED_KEPT));
        self.store.put_document(&key(&info.id), Bytes::from(body), Expect::Absent, swept_at).await?;
        Ok(info)
    }

    /// Removes some that expired a while ago. What cannot be removed now goes when another token is made.
    async fn sweep(&self) {
        let now = self.clock.now();
        let expired = self.store.due_documents(TOKEN_KIND, now, SWEPT_AT_ONCE).await.unwrap_or_default();
        for document in expired {
            let expect = Expect::Version(document.version);
            if let Err(error) = self.store.delete_document(&document.key, expect).await {
                tracing::debug!(%error, "an expired token stays for now");
            }
        }
    }

    async fn remove(&self, id: &TokenId) -> Result<(), TokenError> {
        // Not decoded: what cannot be read must be revocable too.
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
            let reason = format!("{} namespaces: give 1 to {NAMESPACES_MAX}, or all", namespaces.len());
            return invalid("namespaces", reason);
        }
        if let Some(internal) = namespaces.iter().find(|name| name.is_reserved()) {
            return invalid("namespaces", format!("`{internal}` is internal: no token reaches it"));
        }
    }
    if new.may_exec && !Permission::EnqueueExec.is_of(new.role) {
        return invalid("may_exec", format!("role `{}` enqueues nothing: choose another role", new.role));
    }
    match new.expires_at {
        Some(at) if at <= now => invalid("expires_at", format!("{at} has passed: give a later instant")),
        _ => Ok(()),
    }
}

fn key(id: &TokenId) -> DocumentKey {
    DocumentKey::new(Namespace::internal(), TOKEN_KIND, id.as_str())
}
