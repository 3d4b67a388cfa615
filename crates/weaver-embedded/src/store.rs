//! The store's handle. Callers read snapshots themselves; all writes go through the writer.

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
use crate::engine::{Engine, Operation, Request, Shared, Unfinished, close};
use crate::error::StoreError;
use crate::fault::{StoreFault, StoreResult};
use crate::keys;
use crate::load::open_database;
use crate::medium::{FileMedium, Medium};
use crate::options::EmbeddedOptions;
use crate::progress::{self, Listener};
use crate::work::Work;
use crate::writer::Writer;

pub(crate) type Snapshot = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A durable store in a local directory, used by one process at a time.
///
/// Dropping it finishes the submitted requests and closes the file.
pub struct EmbeddedStore {
    // Before `shared` and `directory`: the writer stops while the directory is still ours.
    pub(crate) writer: Writer,
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: EmbeddedOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) name: String,
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) listener: Listener,
    /// Id of the next waiter for work.
    pub(crate) next_waiter: AtomicU64,
    /// Locked until this is dropped; `None` on other media.
    directory: Option<Directory>,
}

/// How to start a store.
#[derive(Clone, Copy)]
struct Start {
    /// Whether an empty medium becomes an empty store.
    may_create: bool,
    /// Whether a dedicated thread writes.
    own_thread: bool,
}

impl EmbeddedStore {
    /// Opens the store in a directory with default options, creating it if it is missing; shows progress on
    /// the terminal.
    pub fn open(directory: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_with(directory, clock, EmbeddedOptions::default(), progress::to_terminal())
    }

    /// Opens the store in a directory, creating it if it is missing. `listener` gets the progress.
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

    /// Opens a store on any medium. Without `own_thread`, each call is written and fsynced by its caller: for
    /// simulation, where a seed must replay exactly.
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
        let (store_clock, progress_listener) = (Arc::clone(&clock), Arc::clone(&listener));
        let (engine, shared) =
            Engine::open(Arc::clone(&medium), options, store_clock, progress_listener, start.may_create)?;
        let writer = if start.own_thread {
            Writer::thread(engine).map_err(|source| StoreError::Io { path: name.clone(), source })?
        } else {
            Writer::caller(engine)
        };
        let next_waiter = AtomicU64::new(0);
        Ok(Self { writer, shared, options, clock, name, medium, listener, next_waiter, directory: None })
    }

    /// Runs an operation in the next batch; returns once that is fsynced.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Work<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T> {
        self.submit(Request::writing, act).await
    }

    /// Reads the writer's in-memory state. Writes nothing, so it works while the disk is full.
    pub(crate) async fn read_memory<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Work<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T> {
        self.submit(Request::reading, act).await
    }

    async fn submit<T: Send + 'static>(
        &self,
        request: fn(Operation) -> Request,
        act: impl FnOnce(&mut Work<'_>) -> StoreResult<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        self.writer.submit(request(Box::new(move |work| {
            let answer = match act(work) {
                Ok(answer) => Ok(answer),
                Err(StoreFault::Refused(error)) => Err(error),
                Err(fault) => return Err(Unfinished { fault, _caller: Some(Box::new(sender)) }),
            };
            Ok(Box::new(move || drop(sender.send(answer))))
        })));
        receiver.await.unwrap_or_else(|_| Err(self.unavailable()))
    }

    /// Reads a snapshot of what is fsynced, on the caller's thread: a row or a page of rows, mostly cached.
    pub(crate) async fn read<T>(&self, act: impl Fn(&Snapshot) -> StoreResult<T> + Send) -> Result<T> {
        if let Ok(answer) = self.try_read(&act) {
            return answer;
        }
        // The handle failed. The writer reopens the file with its next request, which is this one.
        self.read_memory(|_| Ok(())).await?;
        self.try_read(&act).unwrap_or_else(Err)
    }

    /// The outer error is retryable.
    fn try_read<T>(&self, act: &impl Fn(&Snapshot) -> StoreResult<T>) -> Result<Result<T>> {
        let database = self.database()?;
        let answer = catch_unwind(AssertUnwindSafe(|| snapshot(&database, act)));
        close(database);
        match answer {
            Ok(Ok(answer)) => Ok(Ok(answer)),
            Ok(Err(StoreFault::Refused(error))) => Ok(Err(error)),
            Ok(Err(StoreFault::Broken(reason))) => {
                Err(Error::Unavailable { reason: format!("{}: {reason}", self.name) })
            }
            Err(_) => Ok(Err(Error::Damaged {
                what: self.name.clone(),
                remedy: "restore the latest backup of its directory".to_owned(),
            })),
        }
    }

    /// Reads a snapshot of what is fsynced, however long it takes; does not retry.
    pub(crate) fn read_blocking<T>(&self, act: &impl Fn(&Snapshot) -> StoreResult<T>) -> Result<T> {
        self.try_read(act).unwrap_or_else(Err)
    }

    pub(crate) fn database(&self) -> Result<Arc<Database>> {
        self.shared.database.read().clone().ok_or_else(|| self.unavailable())
    }

    fn unavailable(&self) -> Error {
        let mut reason = self.shared.failure.lock().clone();
        if reason.is_empty() {
            // Only a panic answers callers before the reason is set.
            reason = format!("{} failed and is being reopened", self.name);
        }
        Error::Unavailable { reason }
    }
}

/// Runs `act` on a fresh snapshot.
pub(crate) fn snapshot<T>(
    database: &Database,
    act: impl FnOnce(&Snapshot) -> StoreResult<T>,
) -> StoreResult<T> {
    act(&database.begin_read()?.open_table(keys::TABLE)?)
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EmbeddedStore").field("file", &self.name).finish_non_exhaustive()
    }
}
