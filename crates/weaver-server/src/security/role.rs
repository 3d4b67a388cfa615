//! The table of who may do what.

use std::fmt;

pub use weaver_api::{Role, UnknownRole};

/// Something a request may need to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Tasks, groups, queues, runners, logs, explanations and events of a namespace, and waiting for them.
    Read,
    /// New tasks of any type but `exec` and `prompt`.
    Enqueue,
    /// New tasks of the types `exec` and `prompt`, which start programs on the workers' machines: besides the
    /// role, the token itself must have been given it
    /// ([`Identity::may_exec`](crate::security::Identity::may_exec)). Running such a task again asks for it
    /// too.
    EnqueueExec,
    /// Lease, renew, finish, confirm stopped, report progress, write attempt logs, beat.
    Work,
    /// Cancel, run again, run now.
    ManageTasks,
    /// Pause, resume and limit queues.
    ManageQueues,
    /// Add, change and remove schedules, and run them now. What they make must be allowed too.
    ManageSchedules,
    /// Merge queues: add, pause, resume, priorities, taking entries out. Putting a change in line is
    /// [`Enqueue`](Self::Enqueue).
    ManageMerge,
    /// Settings of the whole installation; asked for
    /// [everywhere](crate::security::Identity::require_everywhere).
    ManageSettings,
    /// Tell runners to drain or stop.
    ManageRunners,
    /// Who did what.
    ReadAudit,
    /// See tasks in their stored form, and remove them: finished before their time, unreadable or live.
    Purge,
    /// Figures of the whole server; asked for [everywhere](crate::security::Identity::require_everywhere).
    ReadMetrics,
    /// Make, list and revoke tokens; asked for [everywhere](crate::security::Identity::require_everywhere),
    /// because who may make a token may make any.
    ManageTokens,
}

use Role::{Admin, Operator, Producer, Viewer, Worker};

/// The table. Rows are read from here only.
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
    (Permission::ManageRunners, "manage_runners", &[Operator, Admin]),
    (Permission::ReadAudit, "read_audit", &[Operator, Admin]),
    (Permission::Purge, "purge", &[Admin]),
    (Permission::ReadMetrics, "read_metrics", &[Viewer, Operator, Admin]),
    (Permission::ManageTokens, "manage_tokens", &[Admin]),
];

impl Permission {
    /// Every permission.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(permission, _, _)| *permission)
    }

    /// Its name in messages.
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
