//! Who is asking.

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

/// The task type that starts programs.
pub const EXEC_TASK_TYPE: &str = "exec";

/// The task types that start programs on the machine of a worker or runner: `exec` by its arguments, `prompt`
/// by what an agent makes of it.
pub const PROGRAM_TASK_TYPES: [&str; 2] = [EXEC_TASK_TYPE, PROMPT_TASK_TYPE];

/// Who is asking, and what they may do. Handlers take it as an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The token's name, as given by whoever made it. Two tokens may share one; see
    /// [`caller`](Identity::caller).
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
    /// Where.
    pub namespaces: NamespaceScope,
    /// Whether it may enqueue tasks that start programs.
    pub may_exec: bool,
    /// The token; none where tokens are switched off.
    pub token: Option<TokenId>,
}

impl Identity {
    /// Everyone, on a server whose tokens are switched off: it then listens on this machine alone. Starting
    /// programs stays out of reach, because that has to be given to somebody in particular.
    pub fn local() -> Self {
        Self {
            name: "local".into(),
            role: Role::Admin,
            namespaces: NamespaceScope::All,
            may_exec: false,
            token: None,
        }
    }

    /// Tells callers apart in the audit journal: the name and the token's id.
    pub fn caller(&self) -> String {
        match &self.token {
            Some(token) => format!("{}@{token}", self.name),
            None => self.name.to_string(),
        }
    }

    /// Whom leases are bound to: every token of one name is the same subject, so that a token can be replaced
    /// by a new one of its name while workers hold leases. Only admins of every namespace name tokens.
    pub fn subject(&self) -> &str {
        &self.name
    }

    /// The namespace to begin with, for somebody who cannot see the default one.
    pub(crate) fn home(&self) -> Option<&Namespace> {
        match &self.namespaces {
            NamespaceScope::Only(names) if !names.contains(&Namespace::default()) => names.first(),
            _ => None,
        }
    }

    /// Whether a namespace is inside the scope. For lists: leave out what is not.
    pub fn sees(&self, namespace: &Namespace) -> bool {
        self.namespaces.contains(namespace)
    }

    /// Asks for a permission in a namespace. Call it before the store is asked anything.
    pub fn require(&self, permission: Permission, namespace: &Namespace) -> Result<(), Refusal> {
        // Scope first: whoever is outside learns nothing about what the namespace would have allowed.
        if !self.sees(namespace) {
            return Err(outside_scope(namespace));
        }
        self.require_role(permission)
    }

    /// Asks for a permission that belongs to no single namespace, such as managing tokens: the scope must be
    /// all.
    pub fn require_everywhere(&self, permission: Permission) -> Result<(), Refusal> {
        if !self.namespaces.is_all() {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "scope_too_narrow",
                format!("`{permission}` concerns every namespace, and this token is good for some only"),
                "use a token whose scope is all namespaces",
            ));
        }
        self.require_role(permission)
    }

    /// Asks whether a task of this type may be put into a namespace: `weaver.*` by nobody, `exec` and
    /// `prompt` by those who were given it, anything else with [`Permission::Enqueue`].
    pub fn require_enqueue(&self, namespace: &Namespace, task_type: &TaskType) -> Result<(), Refusal> {
        self.require(Permission::Enqueue, namespace)?;
        if task_type.is_reserved() {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "task_type_internal",
                format!("task type `{task_type}` is internal: `{INTERNAL_PREFIX}*` cannot be enqueued"),
                "choose another task type",
            ));
        }
        if PROGRAM_TASK_TYPES.contains(&task_type.as_str()) {
            return self.require(Permission::EnqueueExec, namespace);
        }
        Ok(())
    }

    /// Asks whether the caller may give a token the permission to start programs: only what it has itself.
    pub fn require_granting_exec(&self) -> Result<(), Refusal> {
        if self.may_exec {
            return Ok(());
        }
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "exec_not_granted",
            "this token may not start programs, so it cannot let another",
            "use a token that was made with --may-exec, or make the new one without it",
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
                format!("this token lacks the permission `{permission}`: it is given to tokens one by one"),
                "use a token that was made with --may-exec",
            ));
        }
        Ok(())
    }
}

/// The same words for a namespace that exists and one that does not.
fn outside_scope(namespace: &Namespace) -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "namespace_not_allowed",
        format!("namespace `{namespace}` is outside this token's scope"),
        "use a token for that namespace, or name one of this token's namespaces",
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
        // A route that was put outside the layer by mistake answers nobody, instead of everybody.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "not_authenticated",
                "this route asks who is calling, and is served without authentication",
                "report this: it is a mistake in the server",
            )
        })
    }
}
