//! A git directory of ours through which every command looks at a repository: its objects and refs, and none
//! of its configuration.
//!
//! A repository's `config`, `info/attributes` and `hooks` name programs: filters, merge drivers, transports
//! for missing objects, gpg, and more with each version of git. A list of settings to override would be
//! incomplete. So git is given a directory whose `objects` and `refs` lead to the repository's and whose
//! configuration is written here. Of the repository's own settings only those in [`PASSED_ON`] count, each
//! with a value from a closed set.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// How the names of our directories begin: nothing else is ever removed.
const PREFIX: &str = "weaver-git-";
/// How long the directory of a dead process stays after its last push. That push, or a hook of it, may go on
/// without the process; a directory that vanished under it would leave the lock of the branch behind.
const STAYS: Duration = Duration::from_hours(24);
/// What is written anew with each push, so that its directory tells when the last one was.
const LAST_PUSH: &str = "last-push";
/// How many names are tried for one.
const TRIES_MAX: usize = 1000;
/// What of a repository is data that git reads and runs nothing for.
const DATA: [&str; 6] = ["objects", "refs", "packed-refs", "logs", "reftable", "shallow"];

/// What is always so. No alternate's refs are asked for, because a git with the alternate's configuration
/// would be.
const OURS: &str = "[core]\n\tbare = true\n\thooksPath = /dev/null\n\tcommitGraph = false\n\tfsmonitor = false\n\
    \talternateRefsCommand = true\n[receive]\n\tautogc = false\n\tdenyCurrentBranch = refuse\n[gc]\n\tauto = 0\n\
    [maintenance]\n\tauto = false\n[i18n]\n\tcommitEncoding = UTF-8\n";

/// Settings of a repository that count: how its files are laid out, who may read them, and whether moves are
/// logged.
const PASSED_ON: [(&str, &[&str]); 4] = [
    (
        "core.sharedrepository",
        &["umask", "false", "true", "group", "all", "world", "everybody", "0", "1", "2"],
    ),
    ("core.logallrefupdates", &["true", "false", "always"]),
    ("extensions.objectformat", &["sha1", "sha256"]),
    ("extensions.refstorage", &["files", "reftable"]),
];

/// Settings by name in lower case, the last of each.
pub(super) type Settings = HashMap<String, String>;

/// The views of one process. Its directory is removed with it; what a killed process leaves is removed by the
/// next.
#[derive(Debug, Default)]
pub(super) struct Views {
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    root: Option<Root>,
    views: HashMap<PathBuf, (Stamp, View)>,
}

/// A view of a repository.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// The directory that git is given.
    pub(super) path: PathBuf,
    /// The user this process runs as.
    pub(super) uid: u32,
    /// Whether the repository has files of a branch beside it.
    pub(super) is_bare: bool,
}

/// When a configuration was last written, as far as its file tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64, u64, Option<SystemTime>);

impl Stamp {
    /// Of a repository's configuration; the same for all that have none.
    pub(super) fn of(git_dir: &Path) -> Self {
        let found = fs::metadata(git_dir.join("config"));
        found.map_or(Self(0, 0, None), |found| Self(found.ino(), found.len(), found.modified().ok()))
    }
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    uid: u32,
    /// Pushes whose end was not seen.
    pushes: usize,
    /// The kernel lets go of its lock with the process.
    _held: File,
}

impl Drop for Root {
    fn drop(&mut self) {
        if self.pushes == 0 {
            // Links and a few small files. A later process removes what stays.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Views {
    /// The view of a repository, if it is as it was.
    pub(super) fn get(&self, git_dir: &Path, stamp: Stamp) -> Option<View> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, view) = made.views.get(git_dir)?;
        (*seen == stamp && view.path.join("HEAD").is_file()).then(|| view.clone())
    }

    /// Notes that a push begins. Its view must outlive it, however this process ends.
    pub(super) fn push_begins(&self) -> io::Result<()> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = &mut made.root {
            root.pushes += 1;
            replace(&root.path.join(LAST_PUSH), b"")?;
        }
        Ok(())
    }

    /// Notes that it ended with everything that belongs to it.
    pub(super) fn push_ended(&self) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = &mut made.root {
            root.pushes = root.pushes.saturating_sub(1);
        }
    }

    /// Makes the view of a repository with these settings.
    pub(super) fn make(&self, git_dir: &Path, stamp: Stamp, settings: &Settings) -> io::Result<View> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was removed from under us is made again.
        if made.root.as_ref().is_none_or(|root| !root.path.is_dir()) {
            made.root = Some(Root::new(&std::env::temp_dir())?);
        }
        let Some(root) = &made.root else { return Err(io::Error::other("there is no directory for it")) };
        let name: String =
            Sha256::digest(git_dir.as_os_str().as_encoded_bytes()).iter().take(8).map(hex).collect();
        let view = View {
            path: root.path.join(name),
            uid: root.uid,
            is_bare: settings.get("core.bare").is_some_and(|value| is_true(value)),
        };
        write(&view.path, git_dir, settings)?;
        made.views.insert(git_dir.to_owned(), (stamp, view.clone()));
        Ok(view)
    }
}

fn hex(byte: &u8) -> String {
    format!("{byte:02x}")
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "" | "true" | "yes" | "on" | "1")
}

fn write(view: &Path, git_dir: &Path, settings: &Settings) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(view) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let git_dir = fs::canonicalize(git_dir)?;
    let config = config(settings);
    // Git makes it under the name that leads there, and not through a link that leads nowhere.
    if config.contains("logallrefupdates = true") || config.contains("logallrefupdates = always") {
        fs::create_dir_all(git_dir.join("logs"))?;
    }
    for name in DATA {
        match symlink(git_dir.join(name), view.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    replace(&view.join("config"), config.as_bytes())?;
    // A link is no valid HEAD. It decides only whose reflog is written beside that of a branch.
    let head = fs::read_to_string(git_dir.join("HEAD")).ok();
    let head =
        head.filter(|text| text.starts_with("ref: refs/heads/") && text.trim_end().lines().count() == 1);
    replace(&view.join("HEAD"), head.as_deref().unwrap_or("ref: refs/heads/main\n").as_bytes())
}

/// Whole or not at all: another thread may be reading it.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, contents)?;
    fs::rename(new, path)
}

fn config(settings: &Settings) -> String {
    let mut text = OURS.to_owned();
    let mut format = 0;
    for (name, values) in PASSED_ON {
        let Some(value) = settings.get(name).map(|value| value.to_ascii_lowercase()) else { continue };
        let is_mode = name == "core.sharedrepository"
            && (value.len() == 4
                && value.starts_with('0')
                && value.bytes().all(|byte| (b'0'..=b'7').contains(&byte)));
        if !(values.contains(&value.as_str()) || is_mode) {
            continue;
        }
        let Some((section, key)) = name.split_once('.') else { continue };
        if section == "extensions" {
            format = 1;
        }
        text += &format!("[{section}]\n\t{key} = {value}\n");
    }
    text + &format!("[core]\n\trepositoryFormatVersion = {format}\n")
}

impl Root {
    /// Makes one beside those of other processes, and removes those of processes that are gone.
    fn new(parent: &Path) -> io::Result<Self> {
        let process = std::process::id();
        for number in 0..TRIES_MAX {
            let path = parent.join(format!("{PREFIX}{process}-{number}"));
            // Never one that is there: everybody can write to the place.
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // A process that cleans up may have taken it for a forgotten one.
            let Some(held) = hold(&path) else { continue };
            let uid = held.metadata()?.uid();
            // It was made this moment: its own time is now, by the same clock as that of the others.
            clean_up(parent, uid, held.metadata()?.modified()?);
            return Ok(Self { path, uid, pushes: 0, _held: held });
        }
        Err(io::Error::other("every name for it is taken"))
    }
}

fn clean_up(parent: &Path, owner: u32, now: SystemTime) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let is_old = |found: &fs::Metadata| {
            found.modified().is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age >= STAYS))
        };
        let is_ours =
            entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == owner && is_old(&found));
        if !(is_named_so && is_ours) {
            continue;
        }
        // Held until it is gone, so that no other process takes it meanwhile.
        if let Some(_held) = hold(&entry.path()) {
            // What cannot be removed is left for the next time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The lock on a directory that is still there, unless a process has it.
fn hold(path: &Path) -> Option<File> {
    let held = File::open(path).ok()?;
    held.try_lock().ok()?;
    let (inode, there) = (held.metadata().ok()?.ino(), fs::symlink_metadata(path).ok()?.ino());
    (inode == there).then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_the_layout_with_known_values_are_passed_on() {
        let settings = [
            ("core.sharedrepository", "0660"),
            ("extensions.objectformat", "sha256"),
            ("core.logallrefupdates", "always\n[filter \"x\"]\n\tsmudge = run"),
            ("core.hookspath", "/evil"),
            ("filter.x.smudge", "run"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let text = config(&settings);
        assert!(text.contains("sharedrepository = 0660") && text.contains("objectformat = sha256"), "{text}");
        assert!(text.contains("repositoryFormatVersion = 1"), "{text}");
        assert!(
            !text.contains("run") && !text.contains("evil") && !text.contains("logallrefupdates"),
            "{text}"
        );
    }

    #[test]
    fn what_a_dead_process_left_is_removed_a_day_later_and_what_a_living_one_holds_is_not() {
        let parent = std::env::temp_dir().join(format!("weaver-views-{}", std::process::id()));
        let (dead, recent) = (parent.join(format!("{PREFIX}dead")), parent.join(format!("{PREFIX}recent")));
        let one = Root::new(&parent).unwrap_or_else(|_| {
            fs::create_dir_all(&parent).unwrap();
            Root::new(&parent).unwrap()
        });
        let old = fs::metadata(&parent).unwrap().modified().unwrap() - STAYS - STAYS;
        for path in [&dead, &recent] {
            fs::create_dir_all(path.join("view")).unwrap();
        }
        for path in [&dead, &one.path] {
            File::open(path).unwrap().set_modified(old).unwrap();
        }
        let two = Root::new(&parent).unwrap();
        assert!(one.path.is_dir() && two.path.is_dir() && !dead.exists());
        assert!(recent.is_dir(), "a push may still use it");
        fs::remove_dir_all(recent).unwrap();
        drop((one, two));
        // It is empty.
        fs::remove_dir(parent).unwrap();
    }
}
