//! Files of commits that checks read: one copy per commit, for all its checks. Each check sees it through an
//! overlay of its own, so that what it writes reaches no other check. Protected files are in the copy as the
//! base has them.
//!
//! A copy that no check uses becomes the copy of the next commit of its repository: only what differs is
//! written.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use weaver_process::confine::User;

use super::checkout::{Wanted, write_protected};
use super::removal::{Remover, remove};
use super::workspace::{Workspace, chown_tree};
use crate::domain::Oid;
use crate::forge::{Forge, ForgeError};

/// Copies that are kept while no check uses them, over all repositories.
const UNUSED_MAX: usize = 8;

/// The copies of one process, in one directory. It is removed after a drop; what is left of it when the
/// process ends is removed by the next one.
#[derive(Debug)]
pub(super) struct Trees {
    parent: PathBuf,
    remover: Arc<Remover>,
    state: Mutex<State>,
    number: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    root: Option<Arc<Workspace>>,
    /// The least recently requested first.
    trees: Vec<Arc<Tree>>,
}

/// A copy of a commit. A check that uses it holds it.
#[derive(Debug)]
pub(super) struct Tree {
    repository: String,
    commit: Oid,
    /// The base of its protected files, if it has any. A forged task may name another base for the commit.
    base: Option<Oid>,
    /// Paths of its protected files.
    protected: Vec<String>,
    /// Paths of the copy before it in the same directory that are not those of its commit.
    foreign: Vec<String>,
    directory: PathBuf,
    /// Set once its files are written.
    written: OnceCell<()>,
    /// Outlives the copy.
    _root: Arc<Workspace>,
}

impl Tree {
    /// The files of the commit: never to be written to.
    pub(super) fn files(&self) -> PathBuf {
        self.directory.join("files")
    }
}

impl Trees {
    pub(super) fn new(parent: &Path, remover: &Arc<Remover>) -> Self {
        let remover = Arc::clone(remover);
        Self { parent: parent.to_owned(), remover, state: Mutex::default(), number: AtomicU64::new(0) }
    }

    /// The copy of a commit, owned by the user that runs checks. Concurrent calls for one commit write it once.
    pub(super) async fn get(
        &self,
        forge: &dyn Forge,
        repository: &str,
        wanted: &Wanted<'_>,
        user: Option<User>,
    ) -> Result<Arc<Tree>, ForgeError> {
        let unavailable = |error: io::Error| {
            ForgeError::Unavailable(format!("cannot prepare a copy of the files: {error}"))
        };
        let tree = self.claim(repository, wanted).map_err(unavailable)?;
        let write = async {
            let files = tree.files();
            // Git then writes the files of the commit there: it compares files with what it wrote itself.
            tree.foreign.iter().try_for_each(|path| clear(&files, path)).map_err(unavailable)?;
            forge.update(wanted.commit, &files).await?;
            write_protected(forge, wanted, &files).await?;
            if let Some(user) = user {
                chown_tree(&files, user).map_err(unavailable)?;
            }
            Ok(())
        };
        match tree.written.get_or_try_init(|| write).await {
            Ok(()) => Ok(tree),
            Err(error) => {
                self.forget(&tree);
                Err(error)
            }
        }
    }

    /// Removes copies that no check uses, beyond those that are kept.
    pub(super) fn clean_up(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = state.trees.iter().filter(|tree| Arc::strong_count(tree) == 1).count();
        let mut surplus = unused.saturating_sub(UNUSED_MAX);
        let mut removed = Vec::new();
        state.trees.retain(|tree| {
            let is_surplus = surplus > 0 && Arc::strong_count(tree) == 1;
            if is_surplus {
                surplus -= 1;
                removed.push(tree.directory.clone());
            }
            !is_surplus
        });
        drop(state);
        for directory in removed {
            self.remover.remove(directory, None);
        }
    }

    /// The known copy of the commit, or one that takes over the files of an unused one.
    fn claim(&self, repository: &str, wanted: &Wanted<'_>) -> io::Result<Arc<Tree>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let base = (!wanted.protected.is_empty()).then_some(wanted.base);
        let is_known = |tree: &Arc<Tree>| {
            tree.repository == repository && tree.commit == *wanted.commit && tree.base.as_ref() == base
        };
        if let Some(known) = state.trees.iter().position(is_known) {
            let tree = state.trees.remove(known);
            state.trees.push(Arc::clone(&tree));
            return Ok(tree);
        }
        let root = match &state.root {
            Some(root) => Arc::clone(root),
            None => {
                Arc::clone(state.root.insert(Arc::new(Workspace::new(&self.parent, "trees", &self.remover)?)))
            }
        };
        let is_free = |tree: &Arc<Tree>| {
            tree.repository == repository && Arc::strong_count(tree) == 1 && tree.written.initialized()
        };
        let (directory, foreign) = match state.trees.iter().position(is_free) {
            Some(free) => {
                let free = state.trees.remove(free);
                (free.directory.clone(), free.protected.clone())
            }
            None => {
                let number = self.number.fetch_add(1, Ordering::Relaxed);
                let directory = root.files().join(number.to_string());
                std::fs::create_dir(&directory)?;
                std::fs::create_dir(directory.join("files"))?;
                (directory, Vec::new())
            }
        };
        let tree = Arc::new(Tree {
            repository: repository.to_owned(),
            commit: wanted.commit.clone(),
            base: base.cloned(),
            protected: wanted.protected.to_vec(),
            foreign,
            directory,
            written: OnceCell::new(),
            _root: root,
        });
        state.trees.push(Arc::clone(&tree));
        Ok(tree)
    }

    /// Removes a copy that could not be written: nothing can be said about its files.
    fn forget(&self, tree: &Arc<Tree>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.trees.len();
        state.trees.retain(|other| !Arc::ptr_eq(other, tree));
        // Another call for the same commit may have done it already.
        let is_ours = state.trees.len() < known;
        drop(state);
        if is_ours {
            self.remover.remove(tree.directory.clone(), None);
        }
    }
}

/// Removes the top of a path in a checkout: below it, or above it, a file may not be the commit's. Links are
/// removed and not followed.
fn clear(files: &Path, path: &str) -> io::Result<()> {
    let Some(Component::Normal(top)) = Path::new(path).components().next() else { return Ok(()) };
    let top = files.join(top);
    match std::fs::symlink_metadata(&top) {
        Ok(found) if found.is_dir() => remove(&top),
        Ok(_) => std::fs::remove_file(&top),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
