//! Who is asking, as handlers see it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use weaver_core::name::{Namespace, TaskType};

pub(crate) use crate::security::Permission;
use crate::security::{Identity, NamespaceScope, Recheck, Refusal, TokenId};

/// Whoever sent the request: the identity that security found, or nobody in particular where none is asked
/// for.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    name: String,
    identity: Identity,
    /// None where nothing was asked for: then nothing can lose its validity.
    recheck: Option<Recheck>,
}

impl Caller {
    /// Somebody whom another layer has let in.
    pub(crate) fn of(identity: Identity, recheck: Option<Recheck>) -> Self {
        Self { name: identity.caller(), identity, recheck }
    }

    /// Verifies again who is asking and that they may do this: a request that waits, and a stream, ask before
    /// they tell anything more.
    pub(crate) async fn recheck(&self, permission: Permission, namespace: &Namespace) -> Result<(), Refusal> {
        match &self.recheck {
            Some(recheck) => recheck.verify().await?.require(permission, namespace),
            None => Ok(()),
        }
    }

    /// The name in the audit journal.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The token, where tokens are asked for.
    pub(crate) fn token(&self) -> Option<&TokenId> {
        self.identity.token.as_ref()
    }

    /// Whom its leases are bound to.
    pub(crate) fn subject(&self) -> &str {
        self.identity.subject()
    }

    /// The namespaces it is limited to, if it is.
    pub(crate) fn scope(&self) -> Option<&[Namespace]> {
        match &self.identity.namespaces {
            NamespaceScope::All => None,
            NamespaceScope::Only(names) => Some(names),
        }
    }

    /// Asks for a permission in a namespace, before the store is asked anything.
    pub(crate) fn require(&self, permission: Permission, namespace: &Namespace) -> Result<(), Refusal> {
        self.identity.require(permission, namespace)
    }

    /// Asks whether a token with the permission to start programs may be made.
    pub(crate) fn require_granting_exec(&self) -> Result<(), Refusal> {
        self.identity.require_granting_exec()
    }

    /// Whether the caller may start programs.
    pub(crate) fn may_exec(&self) -> bool {
        self.identity.may_exec
    }

    /// Asks for a permission over the whole server.
    pub(crate) fn require_everywhere(&self, permission: Permission) -> Result<(), Refusal> {
        self.identity.require_everywhere(permission)
    }

    /// Asks whether a task of this type may be put into a namespace.
    pub(crate) fn require_enqueue(&self, namespace: &Namespace, task_type: &TaskType) -> Result<(), Refusal> {
        self.identity.require_enqueue(namespace, task_type)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(match parts.extensions.get::<Identity>() {
            Some(identity) => Self::of(identity.clone(), parts.extensions.get().cloned()),
            // A router without security, by the choice of whoever built it. What is internal stays so.
            None => Self { name: "anonymous".to_owned(), identity: Identity::local(), recheck: None },
        })
    }
}
