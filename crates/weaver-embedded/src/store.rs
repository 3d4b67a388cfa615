//! The store: a handle for callers, who never touch the file's writing side themselves.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use redb::{Database, ReadOnlyTable, ReadableDatabase};
use tokio::sync::oneshot;
use weaver_core::clock::Clock;
use weaver_core::error::{Error, Result};

use crate::directory::Directory;
use crate::engine::{Act, Engine, Job, Shared, Unfinished, close};
use crate::error::StoreError;
use crate::keys;
use crate::load::open_database;
use crate::medium::{FileMedium, Medium};
use crate::options::EmbeddedOptions;
use crate::progress::{self, Listener};
use crate::trouble::{Outcome, Trouble};
use crate::work::Work;
use crate::writer::Writer;

pub(crate) type Snapshot = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A durable store in a directory of this machine, for one process.
///
/// Dropping it waits for what was asked for, and closes the file.
pub struct EmbeddedStore {
    // Before `shared` and `directory`: the writer stops while the directory is still ours.
    pub(crate) writer: Writer,
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: EmbeddedOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) name: String,
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) listener: Listener,
    /// Numbers of those who wait for work.
    pub(crate) next_waiter: AtomicU64,
    /// Ours until this is dropped; `None` on a medium that is no directory.
    directory: Option<Directory>,
}

/// How a store is started.
#[derive(Clone, Copy)]
struct Start {
    /// Whether an empty medium becomes an empty store.
    may_create: bool,
    /// Whether a thread of its own writes.
    own_thread: bool,
}

impl EmbeddedStore {
    /// Opens the store in a directory, or makes one, with default options; tells the terminal if it takes
    /// long.
    pub fn open(directory: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_with(directory, clock, EmbeddedOptions::default(), progress::to_terminal())
    }

    /// Opens the store in a directory, or makes one.
    pub fn open_with(
        directory: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
        options: EmbeddedOptions,
        listener: Listener,
    ) -> Result<Self, StoreError> {
        let directory = Directory::take(directory.as_ref(), |path| {
            let medium = FileMedium::new_at(path.to_owned());
            open_database(&medium, &options, &listener, true).map(drop)
        })?;
        let medium = Arc::new(FileMedium::existing(directory.data_file()));
        let mut store =
            Self::start(medium, clock, options, listener, Start { may_create: false, own_thread: true })?;
        store.directory = Some(directory);
        Ok(store)
    }

    /// Opens a store on any medium. Without a thread of its own, every call is written and synced by its
    /// caller: for simulation, where a seed must replay exactly.
    pub fn open_on(
        medium: Arc<dyn Medium>,
        clock: Arc<dyn Clock>,
        options: EmbeddedOptions,
        own_thread: bool,
    ) -> Result<Self, StoreError> {
        Self::start(medium, clock, options, Arc::new(|_| {}), Start { may_create: true, own_thread })
    }

    fn start(
        medium: Arc<dyn Medium>,
        clock: Arc<dyn Clock>,
        options: EmbeddedOptions,
        listener: Listener,
        start: Start,
    ) -> Result<Self, StoreError> {
        let name = medium.name();
        let (ours, told) = (Arc::clone(&clock), Arc::clone(&listener));
        let (engine, shared) = Engine::open(Arc::clone(&medium), options, ours, told, start.may_create)?;
        let writer = if start.own_thread {
            Writer::thread(engine).map_err(|source| StoreError::Io { path: name.clone(), source })?
        } else {
            Writer::caller(engine)
        };
        let next_waiter = AtomicU64::new(0);
        Ok(Self { writer, shared, options, clock, name, medium, listener, next_waiter, directory: None })
    }

    /// Does something in the next batch; answers once it is synced.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Work<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.submit(Job::writing, act).await
    }

    /// Asks what only the writer's memory knows. Writes nothing, and so goes on while the disk is full.
    pub(crate) async fn consult<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Work<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.submit(Job::reading, act).await
    }

    async fn submit<T: Send + 'static>(
        &self,
        job: fn(Act) -> Job,
        act: impl FnOnce(&mut Work<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        self.writer.submit(job(Box::new(move |work| {
            let answer = match act(work) {
                Ok(answer) => Ok(answer),
                Err(Trouble::Refused(error)) => Err(error),
                Err(trouble) => return Err(Unfinished { trouble, _caller: Some(Box::new(sender)) }),
            };
            Ok(Box::new(move || drop(sender.send(answer))))
        })));
        receiver.await.unwrap_or_else(|_| Err(self.unavailable()))
    }

    /// Reads from what is synced. The file is read where the caller stands: a row or a page of rows, mostly
    /// from memory.
    pub(crate) async fn read<T>(&self, act: impl Fn(&Snapshot) -> Outcome<T> + Send) -> Result<T> {
        if let Ok(answer) = self.try_read(&act) {
            return answer;
        }
        // The file failed under somebody's hands. The writer opens it again when it is next asked for
        // anything.
        self.consult(|_| Ok(())).await?;
        self.try_read(&act).unwrap_or_else(Err)
    }

    /// The outer error is worth a second try.
    fn try_read<T>(&self, act: &impl Fn(&Snapshot) -> Outcome<T>) -> Result<Result<T>> {
        let database = self.database()?;
        let answer = catch_unwind(AssertUnwindSafe(|| snapshot(&database, act)));
        close(database);
        match answer {
            Ok(Ok(answer)) => Ok(Ok(answer)),
            Ok(Err(Trouble::Refused(error))) => Ok(Err(error)),
            Ok(Err(Trouble::Broken(reason))) => {
                Err(Error::Unavailable { reason: format!("{}: {reason}", self.name) })
            }
            Err(_) => Ok(Err(Error::Damaged {
                what: self.name.clone(),
                way_out: "restore the latest backup of its directory".to_owned(),
            })),
        }
    }

    /// Reads from what is synced, for as long as it takes.
    pub(crate) fn read_blocking<T>(&self, act: &impl Fn(&Snapshot) -> Outcome<T>) -> Result<T> {
        self.try_read(act).unwrap_or_else(Err)
    }

    pub(crate) fn database(&self) -> Result<Arc<Database>> {
        self.shared.database.read().clone().ok_or_else(|| self.unavailable())
    }

    fn unavailable(&self) -> Error {
        let mut reason = self.shared.failure.lock().clone();
        if reason.is_empty() {
            // Only a panic tells callers before the reason is noted.
            reason = format!("{} failed and is opened again", self.name);
        }
        Error::Unavailable { reason }
    }
}

/// Reads from a snapshot.
pub(crate) fn snapshot<T>(database: &Database, act: impl FnOnce(&Snapshot) -> Outcome<T>) -> Outcome<T> {
    act(&database.begin_read()?.open_table(keys::TABLE)?)
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EmbeddedStore").field("file", &self.name).finish_non_exhaustive()
    }
}
