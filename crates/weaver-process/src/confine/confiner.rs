//! From the operator's rules to a command's confinement, or to an error.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::rules::PORTS_DEFAULT;
use super::{Confinement, HOME_DEFAULT, Mode, Network, NetworkRule, Rules};

/// A user of the machine, by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The kernel's user id; 0 is root.
    pub uid: u32,
    /// The id of its primary group.
    pub gid: u32,
}

/// The default user for commands of a server that runs as root: uid 65534, which owns no files.
pub(super) const UNPRIVILEGED: User = User { uid: 65534, gid: 65534 };

/// The kind of a command, which decides the defaults of its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// A merge check: by default no network; only its own directories and the declared cache are writable.
    Check,
    /// A task of type `exec`: by default with network.
    Exec,
    /// An agent in a project: by default with network.
    Agent,
}

impl Purpose {
    fn network(&self) -> NetworkRule {
        match self {
            Self::Check => NetworkRule::Off,
            Self::Exec | Self::Agent => NetworkRule::On,
        }
    }
}

/// Options for all commands of this process.
#[derive(Debug, Clone, Default)]
pub struct ConfinerOptions {
    /// The confinement mode. Default: namespaces.
    pub mode: Mode,
    /// The configured user, for [`Mode::SecondUid`] and for servers that run as root.
    pub user: Option<User>,
    /// Paths that no command may see: stores, keys, tokens, sockets, configuration.
    pub protected: Vec<PathBuf>,
    /// The home directory for `~/` in rules.
    pub home: Option<PathBuf>,
    /// Whether this process runs as root.
    pub is_root: bool,
    /// Whether this process has `no_new_privs`: then its socket cannot distinguish its commands from other
    /// processes of its user.
    pub is_restricted: bool,
}

/// Turns rules into confinements.
#[derive(Debug, Clone)]
pub struct Confiner {
    guard: PathBuf,
    options: ConfinerOptions,
}

impl Confiner {
    /// `guard` is the binary whose [`guard`](crate::guard) builds the sandboxes.
    pub fn new(guard: impl Into<PathBuf>, mut options: ConfinerOptions) -> Self {
        // Canonical: a mask is a mount, and mounts follow symlinks.
        options.protected = options.protected.iter().filter_map(|path| resolved_now(path)).collect();
        Self { guard: guard.into(), options }
    }

    /// The binary of the guard.
    pub fn guard(&self) -> &Path {
        &self.guard
    }

    /// The user of a command whose own directory belongs to `owner`; `None`: this process's user, if it is
    /// not root.
    pub fn user_for(&self, owner: Option<User>) -> Option<User> {
        let is_needed = self.options.is_root || self.options.mode == Mode::SecondUid;
        let owner = owner.filter(|owner| owner.uid != 0 && self.options.mode == Mode::Namespaces);
        is_needed.then(|| self.options.user.or(owner).unwrap_or(UNPRIVILEGED))
    }

    /// Whether a command can own files of another user, by id-mapped mounts: only with namespaces.
    pub fn maps_owners(&self) -> bool {
        self.options.mode == Mode::Namespaces
    }

    /// The confinement of a command with the writable directories `own` and the home directory `home`.
    /// `None` if its rules say `unconfined`.
    ///
    /// # Errors
    /// If a path or a combination of rules is refused; the message says what to do.
    pub fn confinement(
        &self,
        rules: &Rules,
        purpose: &Purpose,
        own: &[PathBuf],
        home: &Path,
        user: Option<User>,
    ) -> Result<Option<Confinement>, String> {
        if rules.unconfined {
            return Ok(None);
        }
        if self.options.mode == Mode::Landlock && self.options.is_restricted && user.is_none() {
            return Err("`confine.mode = \"landlock\"` needs a server without `no_new_privs` (systemd: NoNewPrivileges=): its \
                 socket uses that to distinguish commands from local admins"
                .to_owned());
        }
        if let Some(path) = own.iter().find(|path| is_filesystem_root(path)) {
            return Err(format!(
                "`{}` cannot be a command's directory: it is the root of the file system; use a directory below it, or \
                 `unconfined = true`",
                path.display()
            ));
        }
        let declared = |paths: &[PathBuf]| -> Result<Vec<PathBuf>, String> {
            paths.iter().map(|path| self.declared(path)).collect()
        };
        let (read_only, read_write) = (declared(&rules.read_only)?, declared(&rules.read_write)?);
        if let Some(path) = read_write.first().filter(|_| *purpose == Purpose::Check) {
            let path = path.display();
            return Err(format!(
                "read_write `{path}` is not allowed for checks: one change could write what the next one reads; use \
                 `confine.cache` instead"
            ));
        }
        let hidden = self.hidden(own)?;
        let writable: Vec<PathBuf> = own.iter().cloned().chain(read_write).collect();
        nested(&writable, &read_only)?;
        let ports = rules.ports.clone().unwrap_or_else(|| PORTS_DEFAULT.to_vec());
        let network = match rules.network.unwrap_or(purpose.network()) {
            NetworkRule::Off => Network::Off,
            NetworkRule::On => Network::On { ports },
        };
        if network == Network::Off && self.options.mode != Mode::Namespaces {
            return Err("`network = \"off\"` needs `confine.mode = \"namespaces\"`: without a network namespace only TCP \
                 can be restricted; set `network = \"on\"` with the allowed ports"
                .to_owned());
        }
        Ok(Some(Confinement {
            mode: self.options.mode,
            user,
            read_only,
            writable,
            hidden,
            home: usable_home(home),
            network,
            limits: rules.limits.clone(),
            overlay: None,
        }))
    }

    /// Checks a path of the operator's rules.
    fn declared(&self, path: &Path) -> Result<PathBuf, String> {
        let shown = path.display();
        let full = match (path.strip_prefix("~"), &self.options.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_owned(),
        };
        let is_plain =
            full.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !full.is_absolute() || !is_plain {
            return Err(format!(
                "`{shown}` is refused: use an absolute path without `..`, or one that begins with `~/`"
            ));
        }
        let found = full.canonicalize().map_err(|error| {
            format!("`{shown}` is refused: {error}; create it, or remove it from the rules")
        })?;
        if found == Path::new("/") {
            return Err(format!(
                "`{shown}` is refused: it is the root of the file system; use `unconfined = true` for that"
            ));
        }
        match self.options.protected.iter().find(|protected| overlap(&found, protected)) {
            Some(protected) => Err(format!(
                "`{shown}` is refused: it would expose `{}`, which only the server may read; declare narrower paths, or \
                 move that elsewhere",
                protected.display()
            )),
            None => Ok(full),
        }
    }

    /// Protected paths to mask because a command's own directory contains them. Only direct children: a
    /// command could rename a directory above the mask, and so uncover it.
    fn hidden(&self, own: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
        let mut hidden = self.options.protected.clone();
        for directory in own {
            let found = directory.canonicalize().unwrap_or_else(|_| directory.clone());
            for protected in &self.options.protected {
                let is_child = protected.parent() == Some(found.as_path());
                if found.starts_with(protected) || (protected.starts_with(&found) && !is_child) {
                    return Err(format!(
                        "`{}` cannot be a command's directory: it overlaps with `{}`, which only the server may read; keep \
                         them apart",
                        directory.display(),
                        protected.display()
                    ));
                }
                if is_child && self.options.mode != Mode::Namespaces {
                    return Err(format!(
                        "`{}` contains `{}`, which only the server may read, and only namespaces can mask it; keep them apart",
                        directory.display(),
                        protected.display()
                    ));
                }
                let inner = directory.join(protected.file_name().unwrap_or_default());
                if is_child && !hidden.contains(&inner) {
                    hidden.push(inner);
                }
            }
        }
        Ok(hidden)
    }
}

/// The canonical path, also of a file that does not exist yet: it may exist when a command runs.
fn resolved_now(path: &Path) -> Option<PathBuf> {
    let full = std::path::absolute(path).ok()?;
    let (parent, name) = (full.parent()?, full.file_name()?);
    full.canonicalize().ok().or_else(|| Some(parent.canonicalize().ok()?.join(name)))
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn is_filesystem_root(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| path == Path::new("/"))
}

/// A home that can be mounted. That of a service is often `/` or a system directory, which must not be
/// covered.
fn usable_home(home: &Path) -> PathBuf {
    let system = ["/usr", "/bin", "/sbin", "/lib", "/etc", "/proc", "/sys", "/dev"];
    let is_usable = home.is_absolute()
        && home.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && home.components().count() > 1
        && !system.iter().any(|system| overlap(home, Path::new(system)));
    if is_usable { home.to_owned() } else { PathBuf::from(HOME_DEFAULT) }
}

/// A path below a writable one could be replaced by a symlink before it is mounted. Canonical paths are
/// compared too.
fn nested(writable: &[PathBuf], read_only: &[PathBuf]) -> Result<(), String> {
    let found = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    for outer in writable {
        for inner in writable.iter().chain(read_only) {
            if inner != outer && (inner.starts_with(outer) || found(inner).starts_with(found(outer))) {
                return Err(format!(
                    "`{}` is refused: it is below `{}`, which the command can write to, so it could replace it",
                    inner.display(),
                    outer.display()
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confiner(protected: &[&str]) -> Confiner {
        let protected = protected.iter().map(PathBuf::from).collect();
        Confiner::new("/bin/true", ConfinerOptions { protected, ..ConfinerOptions::default() })
    }

    fn declare(confiner: &Confiner, path: &str) -> Result<Option<Confinement>, String> {
        let rules = Rules { read_only: vec![path.into()], ..Rules::default() };
        confiner.confinement(&rules, &Purpose::Exec, &[], Path::new(HOME_DEFAULT), None)
    }

    #[test]
    fn a_declared_path_must_not_expose_protected_paths_or_contain_dots() {
        let confiner = confiner(&["/usr/share"]);
        for refused in
            ["/usr", "/usr/share", "/usr/share/doc", "/", "relative", "/usr/../usr/lib", "/no/such"]
        {
            assert!(declare(&confiner, refused).is_err(), "{refused}");
        }
        assert!(declare(&confiner, "/usr/lib").unwrap().is_some());
        let said = declare(&confiner, "/usr").unwrap_err();
        assert!(said.contains("/usr/share") && said.contains("declare narrower"), "{said}");
    }

    #[test]
    fn checks_have_no_network_by_default_and_only_their_own_directories_writable() {
        let confiner = confiner(&[]);
        let sandbox = |rules: &Rules| {
            confiner.confinement(rules, &Purpose::Check, &["/tmp".into()], Path::new("/tmp"), None)
        };
        let confinement = sandbox(&Rules::default()).unwrap().unwrap();
        assert_eq!((confinement.network, confinement.writable), (Network::Off, vec![PathBuf::from("/tmp")]));
        let rules = Rules { read_write: vec!["/usr".into()], ..Rules::default() };
        assert!(sandbox(&rules).unwrap_err().contains("confine.cache"));
        assert_eq!(sandbox(&Rules { unconfined: true, ..Rules::default() }), Ok(None));
    }

    #[test]
    fn a_store_in_the_commands_directory_is_masked_as_a_direct_child_and_refused_deeper() {
        let own = |path: &str, protected: &str| {
            let confiner = confiner(&[protected]);
            confiner.confinement(&Rules::default(), &Purpose::Agent, &[path.into()], Path::new("/x"), None)
        };
        let masked = own("/usr", "/usr/share").unwrap().unwrap();
        assert!(masked.hidden.contains(&PathBuf::from("/usr/share")));
        assert!(own("/usr", "/usr/share/doc").unwrap_err().contains("keep them apart"));
        assert!(own("/usr/share/doc", "/usr/share").unwrap_err().contains("keep them apart"));
    }

    #[test]
    fn the_file_system_root_cannot_be_a_commands_directory_and_a_home_cannot_cover_the_system() {
        let confiner = confiner(&[]);
        let sandbox = |own: &str, home: &str| {
            confiner.confinement(&Rules::default(), &Purpose::Exec, &[own.into()], Path::new(home), None)
        };
        assert!(sandbox("/", "/homes/x").unwrap_err().contains("root of the file system"));
        for home in ["/", "/usr", "/usr/games", "relative", "/etc/../x"] {
            assert_eq!(sandbox("/tmp", home).unwrap().unwrap().home, Path::new(HOME_DEFAULT), "{home}");
        }
        assert_eq!(sandbox("/tmp", "/homes/x").unwrap().unwrap().home, Path::new("/homes/x"));
    }

    #[test]
    fn a_path_that_the_command_can_replace_is_refused_also_behind_a_symlink() {
        let directory = std::env::temp_dir().join(format!("weaver-nested-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("own/inner")).unwrap();
        std::os::unix::fs::symlink(directory.join("own/inner"), directory.join("link")).unwrap();
        let rules = Rules { read_only: vec![directory.join("link")], ..Rules::default() };
        let own = [directory.join("own")];
        let refused = confiner(&[]).confinement(&rules, &Purpose::Exec, &own, Path::new(HOME_DEFAULT), None);
        assert!(refused.unwrap_err().contains("can write to"));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn root_gives_its_commands_an_unprivileged_user() {
        let owner = User { uid: 1000, gid: 100 };
        let options = |is_root, user| ConfinerOptions { is_root, user, ..ConfinerOptions::default() };
        let root = Confiner::new("/bin/true", options(true, None));
        assert_eq!(root.user_for(None), Some(UNPRIVILEGED));
        assert_eq!(root.user_for(Some(User { uid: 0, gid: 0 })), Some(UNPRIVILEGED));
        assert_eq!(root.user_for(Some(owner)), Some(owner));
        let other = User { uid: 7, gid: 7 };
        assert_eq!(Confiner::new("/bin/true", options(true, Some(other))).user_for(Some(owner)), Some(other));
        assert_eq!(Confiner::new("/bin/true", options(false, None)).user_for(Some(owner)), None);
    }
}
