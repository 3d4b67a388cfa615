//! The caller of a request, as handlers see it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use weaver_core::name::{Namespace, TaskType};

pub(crate) use crate::security::Permission;
use crate::security::{Identity, NamespaceScope, Recheck, Refusal, TokenId};

/// The sender of a request: its authenticated identity, or `anonymous` on a router without authentication.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    name: String,
    identity: Identity,
    /// None without authentication: then no token can be revoked.
    recheck: Option<Recheck>,
}

impl Caller {
    /// A caller that another layer has authenticated.
    pub(crate) fn of(identity: Identity, recheck: Option<Recheck>) -> Self {
        Self { name: identity.caller(), identity, recheck }
    }

    /// Verifies the token and the permission again: long polls and streams do so before they send more data.
    pub(crate) async fn recheck(&self, permission: Permission, namespace: &Namespace) -> Result<(), Refusal> {
        match &self.recheck {
            Some(recheck) => recheck.verify().await?.require(permission, namespace),
            None => Ok(()),
        }
    }

    /// The actor in the audit journal.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// None without tokens, and for local admins.
    pub(crate) fn token(&self) -> Option<&TokenId> {
        self.identity.token.as_ref()
    }

    /// The subject that its leases are bound to.
    pub(crate) fn subject(&self) -> &str {
        self.identity.subject()
    }

    /// The namespaces it is limited to; `None` for all.
    pub(crate) fn scope(&self) -> Option<&[Namespace]> {
        match &self.identity.namespaces {
            NamespaceScope::All => None,
            NamespaceScope::Only(names) => Some(names),
        }
    }

    /// Checks a permission in a namespace; call it before the store is read.
    pub(crate) fn require(&self, permission: Permission, namespace: &Namespace) -> Result<(), Refusal> {
        self.identity.require(permission, namespace)
    }

    /// Checks whether the caller may create a token with `may_exec`.
    pub(crate) fn require_granting_exec(&self) -> Result<(), Refusal> {
        self.identity.require_granting_exec()
    }

    pub(crate) fn may_exec(&self) -> bool {
        self.identity.may_exec
    }

    /// Checks a permission over all namespaces.
    pub(crate) fn require_everywhere(&self, permission: Permission) -> Result<(), Refusal> {
        self.identity.require_everywhere(permission)
    }

    pub(crate) fn require_enqueue(&self, namespace: &Namespace, task_type: &TaskType) -> Result<(), Refusal> {
        self.identity.require_enqueue(namespace, task_type)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(match parts.extensions.get::<Identity>() {
            Some(identity) => Self::of(identity.clone(), parts.extensions.get().cloned()),
            // A router without authentication, by choice of the program. Internal namespaces stay closed.
            None => Self { name: "anonymous".to_owned(), identity: Identity::local(), recheck: None },
        })
    }
}
