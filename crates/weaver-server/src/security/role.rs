//! The table of roles and permissions.

use std::fmt;

pub use weaver_api::{Role, UnknownRole};

/// A permission that a request may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Tasks, groups, queues, workers, logs, explanations and events of a namespace, and waiting for them.
    Read,
    /// New tasks of any type but `exec` and `prompt`.
    Enqueue,
    /// New tasks of the types `exec` and `prompt`, which start programs on the workers' machines: besides the
    /// role, the token needs [`Identity::may_exec`](crate::security::Identity::may_exec). Retrying such a
    /// task needs it too.
    EnqueueExec,
    /// Lease, renew, finish, confirm stopped, report progress, write attempt logs, beat.
    Work,
    /// Cancel tasks, retry them, make them due now.
    ManageTasks,
    /// Pause, resume and limit queues.
    ManageQueues,
    /// Add, change, remove and run schedules. Enqueuing their tasks must be permitted too.
    ManageSchedules,
    /// Merge queues: add, remove, pause, resume, set priorities, remove entries. Enqueuing a change is
    /// [`Enqueue`](Self::Enqueue).
    ManageMerge,
    /// Settings of the whole installation; needs
    /// [all namespaces](crate::security::Identity::require_everywhere).
    ManageSettings,
    /// Set a worker's directive: run, drain or stop.
    ManageWorkers,
    /// Read the audit journal.
    ReadAudit,
    /// Read tasks in their stored form, and remove them: ended, unreadable or live.
    Purge,
    /// Metrics of the whole server; needs [all namespaces](crate::security::Identity::require_everywhere).
    ReadMetrics,
    /// Create, list and revoke tokens; needs [all
    /// namespaces](crate::security::Identity::require_everywhere), because it allows creating any token.
    ManageTokens,
}

use Role::{Admin, Operator, Producer, Viewer, Worker};

/// The only definition of which role has which permission.
const TABLE: [(Permission, &str, &[Role]); 14] = [
    (Permission::Read, "read", &[Viewer, Producer, Worker, Operator, Admin]),
    (Permission::Enqueue, "enqueue", &[Producer, Operator, Admin]),
    (Permission::EnqueueExec, "enqueue_exec", &[Producer, Operator, Admin]),
    (Permission::Work, "work", &[Worker, Operator, Admin]),
    (Permission::ManageTasks, "manage_tasks", &[Operator, Admin]),
    (Permission::ManageQueues, "manage_queues", &[Operator, Admin]),
    (Permission::ManageSchedules, "manage_schedules", &[Operator, Admin]),
    (Permission::ManageMerge, "manage_merge", &[Operator, Admin]),
    (Permission::ManageSettings, "manage_settings", &[Operator, Admin]),
    (Permission::ManageWorkers, "manage_workers", &[Operator, Admin]),
    (Permission::ReadAudit, "read_audit", &[Operator, Admin]),
    (Permission::Purge, "purge", &[Admin]),
    (Permission::ReadMetrics, "read_metrics", &[Viewer, Operator, Admin]),
    (Permission::ManageTokens, "manage_tokens", &[Admin]),
];

impl Permission {
    /// In the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(permission, _, _)| *permission)
    }

    /// The snake_case name in messages, such as `manage_tasks`.
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The roles that have it, the least powerful first.
    pub fn roles(self) -> &'static [Role] {
        self.row().1
    }

    /// Whether the table gives it to a role.
    pub fn is_of(self, role: Role) -> bool {
        self.roles().contains(&role)
    }

    fn row(self) -> (&'static str, &'static [Role]) {
        let row = TABLE.iter().find(|(permission, _, _)| *permission == self);
        row.map_or(("unlisted", &[]), |(_, name, roles)| (name, roles))
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
