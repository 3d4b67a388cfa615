//! The context of a page: caller, session, namespace, query and time.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use weaver_api::{NamespaceQuery, namespace_or_default};
use weaver_core::name::Namespace;
use weaver_core::time::Timestamp;

use super::Pages;
use super::form::{Fields, encoded, path_part};
use super::gate::Session;
use crate::api::{AppState, Caller, Permission, namespaces};
use crate::problem::Problem;
use crate::security::Identity;

/// Namespaces that the selector offers; any other can be given in the URL.
const NAMESPACES_MAX: u32 = 200;

/// Extracted from every request for a page. Extraction fails unless the caller may read the namespace.
pub(super) struct View {
    pub(super) state: AppState,
    pub(super) caller: Caller,
    pub(super) identity: Identity,
    pub(super) session: Session,
    pub(super) namespace: Namespace,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) query: Fields,
    pub(super) path: String,
    pub(super) now: Timestamp,
}

impl View {
    /// Whether the caller has the permission in this namespace. Pages hide what the caller may not do.
    pub(super) fn may(&self, permission: Permission) -> bool {
        self.caller.require(permission, &self.namespace).is_ok()
    }

    /// Whether the caller has the permission in all namespaces.
    pub(super) fn may_everywhere(&self, permission: Permission) -> bool {
        self.caller.require_everywhere(permission).is_ok()
    }

    /// The URL of a page in the current namespace.
    pub(super) fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        let namespace =
            Some(("namespace", self.namespace.as_str())).filter(|_| self.namespace != Namespace::default());
        let query = encoded(more.iter().copied().chain(namespace));
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    pub(super) fn task_link(&self, id: &str) -> String {
        self.link(&format!("/tasks/{}", path_part(id)), &[])
    }

    pub(super) fn namespace_query(&self) -> NamespaceQuery {
        NamespaceQuery { namespace: Some(self.namespace.to_string()) }
    }
}

impl FromRequestParts<Pages> for View {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, pages: &Pages) -> Result<Self, Problem> {
        let query = Fields::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let identity = Identity::from_request_parts(parts, pages).await?;
        let caller = Caller::of(identity.clone(), parts.extensions.get().cloned());
        let session = parts.extensions.get::<Session>().cloned().ok_or_else(|| {
            Problem::new(
                axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                "no_session",
                "this page was routed without the session layer",
                "report this: it is a bug in the server",
            )
        })?;
        let named = query.get("namespace").or_else(|| identity.home().map(Namespace::as_str));
        let namespace = namespace_or_default(named)?;
        caller.require(Permission::Read, &namespace)?;
        let state = pages.state.clone();
        let mut namespaces = namespaces::visible(&state, &caller, None, NAMESPACES_MAX).await?.items;
        if !namespaces.contains(&namespace) {
            namespaces.insert(0, namespace.clone());
        }
        let now = state.clock.now();
        let path = parts.uri.path().to_owned();
        Ok(Self { state, caller, identity, session, namespace, namespaces, query, path, now })
    }
}
