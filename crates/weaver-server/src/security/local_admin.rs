//! Local admins: processes that connect to the server's Unix socket, authenticated by user id.
//!
//! The kernel reports the peer's user (`SO_PEERCRED`), so there is no secret that could leak. It is the user
//! at the time of `connect`: a process that drops privileges later keeps the connection.

use std::fs;
use std::sync::Arc;

use super::identity::Identity;
use super::role::Role;
use super::scope::NamespaceScope;

const ROOT: u32 = 0;

/// The admitted peer of a connection to the server's Unix socket. In the request's extensions; never over
/// TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPeer {
    /// The peer's user id, from `SO_PEERCRED`.
    pub uid: u32,
    name: Arc<str>,
}

impl LocalPeer {
    /// An admin of all namespaces, with `may_exec`.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            name: Arc::clone(&self.name),
            role: Role::Admin,
            namespaces: NamespaceScope::All,
            may_exec: true,
            token: None,
        }
    }
}

/// Which users the Unix socket admits: the server's own, root, and the members of a group.
#[derive(Debug, Clone)]
pub struct LocalAdmins {
    uid: u32,
    group: Option<String>,
}

impl LocalAdmins {
    /// The server's own user id, and the name of the group whose members are admins too.
    pub fn new(uid: u32, group: Option<String>) -> Self {
        Self { uid, group }
    }

    /// The peer, if its user is an admin. Reads `/etc/passwd` and `/etc/group`, blocking: both are small, and
    /// a change applies from the next connection on.
    pub fn admit(&self, uid: u32, gid: u32) -> Option<LocalPeer> {
        let read = |path| fs::read_to_string(path).unwrap_or_default(); // No database, no names and no members.
        self.decide(uid, gid, &read("/etc/passwd"), &read("/etc/group"))
    }

    fn decide(&self, uid: u32, gid: u32, passwd: &str, groups: &str) -> Option<LocalPeer> {
        let name = user_name(uid, passwd);
        let is_member = || {
            let group = self.group.as_deref()?;
            let (id, members) = group_named(group, groups)?;
            let is_listed = name.is_some_and(|name| members.split(',').any(|member| member == name));
            (id == gid || is_listed).then_some(())
        };
        if uid != self.uid && uid != ROOT {
            is_member()?;
        }
        Some(LocalPeer { uid, name: subject(uid, name).into() })
    }
}

/// The subject of a user of this machine, as the audit journal and merge queue entries name it.
pub fn local_subject(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default(); // No database, no names.
    subject(uid, user_name(uid, &passwd))
}

fn subject(uid: u32, name: Option<&str>) -> String {
    name.map_or_else(|| format!("local:{uid}"), |name| format!("local:{name}"))
}

/// The id of a group of the local user database.
pub fn group_id(name: &str) -> Option<u32> {
    group_named(name, &fs::read_to_string("/etc/group").ok()?).map(|(id, _)| id)
}

/// `name:password:uid:…`, one user per line.
fn user_name(uid: u32, passwd: &str) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid) && !name.is_empty()).then_some(name)
    })
}

/// `name:password:gid:member,member`, one group per line.
fn group_named<'a>(name: &str, groups: &'a str) -> Option<(u32, &'a str)> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some((fields.nth(1)?.parse().ok()?, fields.next().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweaver:x:900:900::/:/bin/false\nada:x:1000:1000:::\nbob:x:1001:1001:::\n\
        eve:x:1002:1002:::\n";
    const GROUPS: &str = "root:x:0:\nopsmen:x:49:eve\nops:x:50:ada,mallory\nweaver:x:900:\n";

    fn decide(group: Option<&str>, uid: u32, gid: u32) -> Option<String> {
        let admins = LocalAdmins::new(900, group.map(str::to_owned));
        admins.decide(uid, gid, PASSWD, GROUPS).map(|peer| peer.name.to_string())
    }

    #[test]
    fn the_servers_user_and_root_are_admins_and_other_users_are_not() {
        assert_eq!(decide(None, 900, 900).as_deref(), Some("local:weaver"));
        assert_eq!(decide(None, 0, 0).as_deref(), Some("local:root"));
        assert_eq!(decide(None, 1000, 1000), None);
        assert_eq!(decide(None, 1000, 900), None, "the server's group is no admin group");
    }

    #[test]
    fn members_of_the_admin_group_are_admins_by_primary_group_or_by_membership() {
        assert_eq!(decide(Some("ops"), 1000, 1000).as_deref(), Some("local:ada"));
        assert_eq!(decide(Some("ops"), 1001, 50).as_deref(), Some("local:bob"));
        assert_eq!(decide(Some("ops"), 1001, 1001), None);
        assert_eq!(decide(Some("ops"), 1002, 1002), None, "a group whose name begins the same is another");
        assert_eq!(decide(Some("no-such-group"), 1000, 1000), None);
    }

    #[test]
    fn a_user_without_a_name_is_identified_by_its_id() {
        assert_eq!(decide(Some("ops"), 4242, 50).as_deref(), Some("local:4242"));
        assert_eq!(decide(None, 4242, 4242), None);
    }
}
