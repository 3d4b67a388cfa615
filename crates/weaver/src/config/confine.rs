//! The section `[confine]`: by which means commands that are not ours are confined, and what merge checks may
//! do.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weaver_process::Rules;
use weaver_process::confine::{Mode, User};

use crate::config::handlers::explained;
use crate::exit::Failure;

/// The section's name.
pub(crate) const CONFINE: &str = "confine";

/// What the operator decided for every command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Confine {
    /// By which means.
    pub(crate) mode: Mode,
    /// Who commands of a server that runs as root are: a user's name, or `UID:GID`.
    pub(crate) user: Option<String>,
    /// Where each repository has a directory that its checks share.
    pub(crate) cache: Option<PathBuf>,
    /// What merge checks may see and do.
    pub(crate) check: Rules,
}

#[derive(Deserialize)]
struct Section {
    confine: Confine,
}

pub(super) fn read(path: &Path, text: &str) -> Result<Confine, Failure> {
    toml::from_str::<Section>(text)
        .map(|section| section.confine)
        .map_err(|error| explained(path, text, &error))
}

impl Confine {
    /// The configured user, by number.
    ///
    /// # Errors
    /// If there is none of that name.
    pub(crate) fn user(&self) -> Result<Option<User>, String> {
        let Some(name) = &self.user else { return Ok(None) };
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        match numbers(name).or_else(|| account(name, &accounts)) {
            Some(User { uid: 0, .. }) => Err("confine.user is root: commands never run as root".to_owned()),
            Some(user) => Ok(Some(user)),
            None => Err(format!(
                "confine.user is `{name}`, and /etc/passwd has no such user; add it (useradd --system {name}), or write UID:GID"
            )),
        }
    }
}

fn numbers(text: &str) -> Option<User> {
    let (uid, gid) = text.split_once(':')?;
    Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
}

fn account(name: &str, accounts: &str) -> Option<User> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        is_it.then_some(User { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_is_read_and_a_slip_is_refused_with_its_line_and_the_nearest() {
        let text = "[confine]\nmode = \"landlock\"\ncache = \"/var/cache/weaver\"\n[confine.check]\nread_only = [\"/opt\"]\n";
        let read = |text: &str| read(Path::new("weaver.toml"), text);
        let confine = read(text).unwrap();
        assert_eq!((confine.mode, confine.check.read_only.len()), (Mode::Landlock, 1));
        let said = read("[confine.check]\nread_onyl = []\n").unwrap_err().message;
        assert!(said.starts_with("weaver.toml:2: ") && said.ends_with("did you mean `read_only`?"), "{said}");
    }

    #[test]
    fn a_user_is_found_by_name_or_number_and_is_never_root() {
        let user = |text: &str| Confine { user: Some(text.to_owned()), ..Confine::default() }.user();
        assert_eq!(user("12:34"), Ok(Some(User { uid: 12, gid: 34 })));
        assert!(user("0:0").is_err() && user("root").is_err() && user("no-such-user").is_err());
        assert_eq!(account("b", "a:x:1:2:::\nb:x:3:4:::"), Some(User { uid: 3, gid: 4 }));
    }
}
