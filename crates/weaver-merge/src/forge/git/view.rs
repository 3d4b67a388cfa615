//! A view: a git directory of ours with a repository's objects and refs, and none of its configuration.
//!
//! A repository's `config`, `info/attributes` and `hooks` name programs: filters, merge drivers, transports
//! for missing objects, gpg, and more with each version of git. A list of settings to override would be
//! incomplete.
//!
//! So git is given a directory whose `refs` link to the repository's, with a configuration written here. Of
//! the repository's own settings only those in [`PASSED_ON`] apply, each with a value from a closed set.
//!
//! A view has two such directories. A push is received by one whose `objects` link to the repository's. All
//! other commands use one with objects of its own (`private.rs`), so that candidates are not in the repository.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::private;

/// Prefix of our directories' names: nothing else is ever removed.
const PREFIX: &str = "weaver-git-";
/// Retention of a dead process's directory after its last push. That push, or a hook of it, may outlive the
/// process; removing its directory would leave the branch locked.
const RETENTION: Duration = Duration::from_hours(24);
/// Rewritten with each push, so that the directory's mtime is the time of the last push.
const LAST_PUSH: &str = "last-push";
const TRIES_MAX: usize = 1000;
/// Parts of a repository that are only data: git runs no program for them.
pub(super) const DATA: [&str; 5] = ["refs", "packed-refs", "logs", "reftable", "shallow"];
pub(super) const OBJECTS: &str = "objects";

/// Settings of every view. Refs of alternates are not listed, because that would run git with the alternate's
/// configuration. Git 2.43 and 2.44 read attributes from the tree of `HEAD`, which is not part of a merge
/// request: a name that no tree has turns that off.
const OURS: &str = "[core]\n\tbare = true\n\thooksPath = /dev/null\n\tcommitGraph = false\n\tfsmonitor = false\n\
    \talternateRefsCommand = true\n\tattributesFile = /dev/null\n[attr]\n\ttree = refs/weaver/none\n\
    [receive]\n\tautogc = false\n\tdenyCurrentBranch = refuse\n[gc]\n\tauto = 0\n\
    [maintenance]\n\tauto = false\n[i18n]\n\tcommitEncoding = UTF-8\n";

/// Settings of a repository that apply: layout, permissions, and the reflog, with their allowed values.
const PASSED_ON: [(&str, &[&str]); 4] = [
    (
        "core.sharedrepository",
        &["umask", "false", "true", "group", "all", "world", "everybody", "0", "1", "2"],
    ),
    ("core.logallrefupdates", &["true", "false", "always"]),
    ("extensions.objectformat", &["sha1", "sha256"]),
    ("extensions.refstorage", &["files", "reftable"]),
];

/// Settings by lower-case name; the last value of each.
pub(super) type Settings = HashMap<String, String>;

/// The views of one process, in one directory. It is removed on drop; that of a killed process is removed by
/// a later one.
#[derive(Debug, Default)]
pub(super) struct Views {
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    root: Option<Root>,
    views: HashMap<PathBuf, (Stamp, View)>,
    /// Candidates built since the private objects of a repository were last replaced.
    built: HashMap<PathBuf, u32>,
}

/// A view of a repository.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// The `--git-dir` of commands, with private objects.
    pub(super) path: PathBuf,
    /// Where pushes go: its objects and refs are the repository's.
    pub(super) receiver: PathBuf,
    /// How often the private objects were replaced.
    generation: u32,
    /// The user this process runs as.
    pub(super) uid: u32,
    /// `core.bare` of the repository: false if it has a work tree.
    pub(super) is_bare: bool,
}

/// Inode, length and mtime of a configuration, to detect changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64, u64, Option<SystemTime>);

impl Stamp {
    /// Equal for all repositories without a configuration.
    pub(super) fn of(git_dir: &Path) -> Self {
        let found = fs::metadata(git_dir.join("config"));
        found.map_or(Self(0, 0, None), |found| Self(found.ino(), found.len(), found.modified().ok()))
    }
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    uid: u32,
    /// Pushes whose end was not observed.
    pushes: usize,
    /// The kernel releases its lock with the process.
    _held: File,
}

impl Drop for Root {
    fn drop(&mut self) {
        if self.pushes == 0 {
            // Links and a few small files. A later process removes what remains.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Views {
    /// The view of a repository, if its configuration is unchanged and its private objects are few.
    pub(super) fn get(&self, git_dir: &Path, stamp: Stamp) -> Option<View> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, view) = made.views.get(git_dir)?;
        let is_full = made.built.get(git_dir).is_some_and(|built| *built >= private::CANDIDATES_MAX);
        (*seen == stamp && !is_full && view.path.join("HEAD").is_file()).then(|| view.clone())
    }

    /// Counts a candidate whose objects may be private.
    pub(super) fn candidate_built(&self, git_dir: &Path) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        *made.built.entry(git_dir.to_owned()).or_default() += 1;
    }

    /// Records the start of a push. Its view must outlive it, however this process ends.
    pub(super) fn push_started(&self) -> io::Result<()> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = &mut made.root {
            root.pushes += 1;
            replace(&root.path.join(LAST_PUSH), b"")?;
        }
        Ok(())
    }

    /// Records that a push and all its processes ended.
    pub(super) fn push_ended(&self) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = &mut made.root {
            root.pushes = root.pushes.saturating_sub(1);
        }
    }

    /// Creates or rewrites the view of a repository.
    pub(super) fn make(&self, git_dir: &Path, stamp: Stamp, settings: &Settings) -> io::Result<View> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have been removed by a cleaner of temporary files.
        if made.root.as_ref().is_none_or(|root| !root.path.is_dir()) {
            made.root = Some(Root::new(&std::env::temp_dir())?);
        }
        let generation = made.views.get(git_dir).map_or(0, |(_, view)| view.generation);
        let is_full = made.built.get(git_dir).is_some_and(|built| *built >= private::CANDIDATES_MAX);
        let generation = generation + u32::from(is_full);
        let Some(root) = &made.root else { return Err(io::Error::other("no directory for views")) };
        let name: String =
            Sha256::digest(git_dir.as_os_str().as_encoded_bytes()).iter().take(8).map(hex).collect();
        let receiver = root.path.join(name);
        let view = View {
            path: private::path(&receiver, generation),
            receiver,
            generation,
            uid: root.uid,
            is_bare: settings.get("core.bare").is_some_and(|value| is_true(value)),
        };
        write(&view, git_dir, settings)?;
        if is_full {
            made.built.remove(git_dir);
        }
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

fn write(view: &View, git_dir: &Path, settings: &Settings) -> io::Result<()> {
    let git_dir = fs::canonicalize(git_dir)?;
    let config = config(settings);
    // Git does not create `logs` through a dangling link.
    if config.contains("logallrefupdates = true") || config.contains("logallrefupdates = always") {
        fs::create_dir_all(git_dir.join("logs"))?;
    }
    // HEAD must not be a link. It only decides which other reflog is written.
    let head = fs::read_to_string(git_dir.join("HEAD")).ok();
    let head =
        head.filter(|text| text.starts_with("ref: refs/heads/") && text.trim_end().lines().count() == 1);
    let head = head.as_deref().unwrap_or("ref: refs/heads/main\n");
    create(&view.receiver)?;
    link(&view.receiver, &git_dir, OBJECTS)?;
    create(&view.path)?;
    private::write(&view.path, &view.receiver, &git_dir, view.generation)?;
    for (directory, more) in [(&view.receiver, ""), (&view.path, private::CONFIG)] {
        for name in DATA {
            link(directory, &git_dir, name)?;
        }
        replace(&directory.join("config"), (config.clone() + more).as_bytes())?;
        replace(&directory.join("HEAD"), head.as_bytes())?;
    }
    Ok(())
}

fn create(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn link(view: &Path, git_dir: &Path, name: &str) -> io::Result<()> {
    match symlink(git_dir.join(name), view.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Atomic: another thread may be reading it.
pub(super) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
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
    /// Creates a directory, and removes old ones of dead processes.
    fn new(parent: &Path) -> io::Result<Self> {
        let process = std::process::id();
        for number in 0..TRIES_MAX {
            let path = parent.join(format!("{PREFIX}{process}-{number}"));
            // Never an existing one: the parent is world-writable.
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Another process may have locked it to remove it as abandoned.
            let Some(held) = lock(&path) else { continue };
            let uid = held.metadata()?.uid();
            // Just created: its mtime is now, by the same clock as that of the others.
            clean_up(parent, uid, held.metadata()?.modified()?);
            return Ok(Self { path, uid, pushes: 0, _held: held });
        }
        Err(io::Error::other("every candidate directory name is taken"))
    }
}

fn clean_up(parent: &Path, owner: u32, now: SystemTime) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let is_old = |found: &fs::Metadata| {
            found.modified().is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age >= RETENTION))
        };
        let is_ours =
            entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == owner && is_old(&found));
        if !(is_named_so && is_ours) {
            continue;
        }
        // Locked until it is removed, so that no other process uses it meanwhile.
        if let Some(_held) = lock(&entry.path()) {
            // What cannot be removed is left for the next process.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Locks a directory; `None` if it is locked or was replaced.
fn lock(path: &Path) -> Option<File> {
    let held = File::open(path).ok()?;
    held.try_lock().ok()?;
    let (inode, there) = (held.metadata().ok()?.ino(), fs::symlink_metadata(path).ok()?.ino());
    (inode == there).then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_layout_settings_with_known_values_are_passed_on() {
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
        // Only git 2.43 and 2.44 read attributes of `HEAD` without it: with any other git, no merge shows it.
        assert!(text.contains("[attr]\n\ttree = refs/weaver/none\n"), "{text}");
        assert!(
            !text.contains("run") && !text.contains("evil") && !text.contains("logallrefupdates"),
            "{text}"
        );
    }

    #[test]
    fn views_of_a_dead_process_are_removed_a_day_later_and_locked_ones_are_kept() {
        let parent = std::env::temp_dir().join(format!("weaver-views-{}", std::process::id()));
        let (dead, recent) = (parent.join(format!("{PREFIX}dead")), parent.join(format!("{PREFIX}recent")));
        let one = Root::new(&parent).unwrap_or_else(|_| {
            fs::create_dir_all(&parent).unwrap();
            Root::new(&parent).unwrap()
        });
        let old = fs::metadata(&parent).unwrap().modified().unwrap() - RETENTION - RETENTION;
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
