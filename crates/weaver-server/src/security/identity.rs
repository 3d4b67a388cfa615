//! The authenticated caller, and permission checks.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use weaver_agent::PROMPT_TASK_TYPE;
use weaver_core::name::{Namespace, TaskType};

use super::refusal::Refusal;
use super::role::{Permission, Role};
use super::scope::{INTERNAL_PREFIX, NamespaceScope};
use super::token_text::TokenId;

/// The task type of the built-in command handler.
pub const EXEC_TASK_TYPE: &str = "exec";

/// The task types that start programs on a worker's machine: `exec` by its arguments, `prompt` by what an
/// agent does with it. Enqueuing them needs [`Permission::EnqueueExec`].
pub const PROGRAM_TASK_TYPES: [&str; 2] = [EXEC_TASK_TYPE, PROMPT_TASK_TYPE];

/// The authenticated caller and its permissions; an extractor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The token's name, chosen by its creator. Tokens may share a name; see [`caller`](Identity::caller).
    pub name: Arc<str>,
    /// The role; its permissions are in [`Permission::roles`].
    pub role: Role,
    /// The namespaces that the role applies to.
    pub namespaces: NamespaceScope,
    /// Whether it may enqueue tasks that start programs.
    pub may_exec: bool,
    /// The token; none without tokens, and for local admins.
    pub token: Option<TokenId>,
}

impl Identity {
    /// Every caller of a server without tokens, which listens on this machine only. It has no `may_exec`,
    /// which is only granted to a token or a local admin.
    pub fn local() -> Self {
        Self {
            name: "local".into(),
            role: Role::Admin,
            namespaces: NamespaceScope::All,
            may_exec: false,
            token: None,
        }
    }

    /// The actor in the audit journal: the name and the token's id.
    pub fn caller(&self) -> String {
        match &self.token {
            Some(token) => format!("{}@{token}", self.name),
            None => self.name.to_string(),
        }
    }

    /// The subject that leases are bound to: all tokens of one name share it, so that a token can be rotated
    /// while workers hold leases. Only admins of all namespaces create tokens.
    pub fn subject(&self) -> &str {
        &self.name
    }

    /// The first namespace of the dashboard, for a caller that may not see the default one.
    pub(crate) fn home(&self) -> Option<&Namespace> {
        match &self.namespaces {
            NamespaceScope::Only(names) if !names.contains(&Namespace::default()) => names.first(),
            _ => None,
        }
    }

    /// Whether a namespace is in scope; lists leave out the others.
    pub fn sees(&self, namespace: &Namespace) -> bool {
        self.namespaces.contains(namespace)
    }

    /// Checks a permission in a namespace. Call it before the store is read.
    pub fn require(&self, permission: Permission, namespace: &Namespace) -> Result<(), Refusal> {
        // Scope first: a caller outside learns nothing about the namespace.
        if !self.sees(namespace) {
            return Err(outside_scope(namespace));
        }
        self.require_role(permission)
    }

    /// Checks a permission over the whole server, such as managing tokens: the scope must be all namespaces.
    pub fn require_everywhere(&self, permission: Permission) -> Result<(), Refusal> {
        if !self.namespaces.is_all() {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "scope_too_narrow",
                format!("`{permission}` needs a token for all namespaces; this token is limited to some"),
                "use a token whose scope is all namespaces",
            ));
        }
        self.require_role(permission)
    }

    /// Checks whether a task of this type may be enqueued: `weaver.*` never, `exec` and `prompt` with
    /// [`Permission::EnqueueExec`], any other with [`Permission::Enqueue`].
    pub fn require_enqueue(&self, namespace: &Namespace, task_type: &TaskType) -> Result<(), Refusal> {
        self.require(Permission::Enqueue, namespace)?;
        if task_type.is_reserved() {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "task_type_internal",
                format!("task type `{task_type}` is reserved: `{INTERNAL_PREFIX}*` cannot be enqueued"),
                "choose another task type",
            ));
        }
        if PROGRAM_TASK_TYPES.contains(&task_type.as_str()) {
            return self.require(Permission::EnqueueExec, namespace);
        }
        Ok(())
    }

    /// Checks whether the caller may grant `may_exec` to a token: only if it has it itself.
    pub fn require_granting_exec(&self) -> Result<(), Refusal> {
        if self.may_exec {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "exec_not_granted",
            "this token lacks `may_exec`, so it cannot grant it",
            "use a token that was created with --may-exec, or create the new one without it",
        ))
    }

    fn require_role(&self, permission: Permission) -> Result<(), Refusal> {
        if !permission.is_of(self.role) {
            return Err(role_lacks(self.role, permission));
        }
        if permission == Permission::EnqueueExec && !self.may_exec {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "exec_not_granted",
                format!("this token lacks the permission `{permission}`, which is granted per token"),
                "use a token that was created with --may-exec",
            ));
        }
        Ok(())
    }
}

/// The same response for a namespace that exists and one that does not.
fn outside_scope(namespace: &Namespace) -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "namespace_not_allowed",
        format!("namespace `{namespace}` is outside this token's scope"),
        "use a token for that namespace, or a namespace in this token's scope",
    )
}

fn role_lacks(role: Role, permission: Permission) -> Refusal {
    let roles: Vec<_> = permission.roles().iter().map(|role| role.as_str()).collect();
    Refusal::new(
        StatusCode::FORBIDDEN,
        "permission_missing",
        format!("role `{role}` lacks the permission `{permission}`"),
        format!("use a token with one of the roles {}", roles.join(", ")),
    )
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        // Fails closed: a route outside the layer by mistake refuses every request.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "not_authenticated",
                "this route needs authentication, but is served without it",
                "this is a bug in Weaver: report it",
            )
        })
    }
}
