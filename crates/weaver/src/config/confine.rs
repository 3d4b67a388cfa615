//! The section `[confine]`: how external commands are confined, and the rules for merge checks.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weaver_process::Rules;
use weaver_process::confine::{Mode, User};

use crate::config::handlers::explained;
use crate::exit::Failure;

pub(crate) const CONFINE: &str = "confine";

/// Confinement of all commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Confine {
    pub(crate) mode: Mode,
    /// The user that commands run as if the server runs as root: a name, or `UID:GID`.
    pub(crate) user: Option<String>,
    /// Parent of a cache directory per repository, shared by its checks.
    pub(crate) cache: Option<PathBuf>,
    /// Rules for merge checks.
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
    /// The configured user as numeric ids.
    ///
    /// # Errors
    /// If the name is unknown or root.
    pub(crate) fn user(&self) -> Result<Option<User>, String> {
        let Some(name) = &self.user else { return Ok(None) };
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        match numbers(name).or_else(|| account(name, &accounts)) {
            Some(User { uid: 0, .. }) => Err("confine.user is root: commands never run as root".to_owned()),
            Some(user) => Ok(Some(user)),
            None => Err(format!(
                "confine.user: user `{name}` is not in /etc/passwd; create it (useradd --system {name}), or use UID:GID"
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
    fn the_section_is_read_and_a_typo_is_refused_with_its_line_and_the_nearest() {
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
