//! Group commit: all waiting requests run in one transaction, are fsynced together, and only then answered
//! (G1).
//!
//! ```text
//! requests ─▶ run each on Work ─▶ commit: write, fsync, switch header, fsync ─▶ changes, wake-ups, answers
//!                  │ error or panic
//!                  └──▶ every request of the batch fails ─▶ reopen the file ─▶ rebuild the memory
//! ```
//!
//! While the disk is full, requests that only read are served; those that write fail before anything is
//! written.

use std::any::Any;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use redb::Database;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::quarantine::Quarantine;
use weaver_core::queue::change_log::ChangeLog;
use weaver_core::store_clock::StoreClock;
use weaver_core::time::Timestamp;

use crate::error::StoreError;
use crate::fault::StoreFault;
use crate::guard::Health;
use crate::keys;
use crate::load::{load, open_database};
use crate::medium::Medium;
use crate::memory::Memory;
use crate::options::EmbeddedOptions;
use crate::progress::Listener;
use crate::work::Work;

/// A request of a batch. Its caller gets an error if it is dropped unanswered.
pub(crate) struct Request {
    act: Operation,
    writes: bool,
}

/// Runs in the batch's transaction; the [`Answer`] it returns is called once the batch is fsynced.
pub(crate) type Operation = Box<dyn FnOnce(&mut Work<'_>) -> Result<Answer, Unfinished> + Send>;
pub(crate) type Answer = Box<dyn FnOnce() + Send>;

/// A request that failed with the whole batch. Its caller waits until this is dropped, then reads the reason
/// from [`Shared::failure`].
pub(crate) struct Unfinished {
    pub(crate) fault: StoreFault,
    pub(crate) _caller: Option<Box<dyn Any + Send>>,
}

impl<T: Into<StoreFault>> From<T> for Unfinished {
    fn from(fault: T) -> Self {
        Self { fault: fault.into(), _caller: None }
    }
}

impl Request {
    pub(crate) fn writing(act: Operation) -> Self {
        Self { act, writes: true }
    }

    /// A request that writes nothing, and is served while the disk is full.
    pub(crate) fn reading(act: Operation) -> Self {
        Self { act, writes: false }
    }
}

/// After the disk was full, writing resumes with at least this much free space, in bytes.
const FREE_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// State shared between the writer and readers.
#[derive(Debug)]
pub(crate) struct Shared {
    /// `None` while the store is being reopened.
    pub(crate) database: RwLock<Option<Arc<Database>>>,
    pub(crate) change_log: Mutex<ChangeLog>,
    /// Notified after every batch that added changes to the log.
    pub(crate) changed: Notify,
    /// Notified after every batch that cancelled a running task.
    pub(crate) cancelled: Notify,
    /// Notified after every batch that assigned a task.
    pub(crate) assigned: Notify,
    /// The reason of the last failure.
    pub(crate) failure: Mutex<String>,
    /// Records that this process could not read.
    pub(crate) quarantine: Arc<Quarantine>,
}

pub(crate) struct Engine {
    medium: Arc<dyn Medium>,
    options: EmbeddedOptions,
    clock: Arc<StoreClock>,
    listener: Listener,
    shared: Arc<Shared>,
    memory: Memory,
    /// Health of the current database handle.
    health: Arc<Health>,
    /// Free space the disk must have before writes are tried again, in bytes; 0: it is not full.
    needed_bytes: u64,
    /// Whether the last batch failed: no background work until one succeeds.
    degraded: bool,
}

impl Engine {
    pub(crate) fn open(
        medium: Arc<dyn Medium>,
        options: EmbeddedOptions,
        clock: Arc<dyn Clock>,
        listener: Listener,
        may_create: bool,
    ) -> Result<(Self, Arc<Shared>), StoreError> {
        let opened = open_database(&*medium, &options, &listener, may_create)?;
        let open_clock = |latest| Arc::new(StoreClock::open(clock, latest));
        let empty = Memory::new(options, Arc::default());
        let (memory, clock) = load_memory(&*medium, &opened.database, empty, open_clock, &listener)?;
        let shared = Arc::new(Shared {
            change_log: Mutex::new(ChangeLog::new(options.change_log_capacity, memory.counters.opens)),
            database: RwLock::new(Some(Arc::new(opened.database))),
            changed: Notify::new(),
            cancelled: Notify::new(),
            assigned: Notify::new(),
            failure: Mutex::default(),
            quarantine: Arc::clone(&memory.quarantine),
        });
        let engine = Self {
            medium,
            options,
            clock,
            listener,
            shared: Arc::clone(&shared),
            memory,
            health: opened.health,
            needed_bytes: 0,
            degraded: false,
        };
        Ok((engine, shared))
    }

    /// Whether there is work to do without a request.
    pub(crate) fn has_background_work(&self) -> bool {
        self.memory.trash && !self.degraded
    }

    /// Runs one batch.
    ///
    /// Dropping a request or its answer wakes its caller, who then reads `failure`: so that is set first.
    pub(crate) fn process(&mut self, mut requests: Vec<Request>) {
        if let Err(reason) = self.ensure_open() {
            return self.fail(reason);
        }
        let room = self.ensure_free_space();
        let has_space = room.is_ok();
        if let Err(reason) = room {
            self.fail(reason);
            requests.retain(|request| !request.writes);
        }
        let mut answers = Vec::with_capacity(requests.len());
        let mut requests = requests.into_iter();
        let result = catch_unwind(AssertUnwindSafe(|| self.run(&mut requests, &mut answers, has_space)));
        let (reason, _unfinished) = match result {
            Ok(Ok(())) => {
                self.degraded = !has_space;
                self.publish();
                return answers.into_iter().for_each(|answer| answer());
            }
            Ok(Err(unfinished)) => (unfinished.fault.to_string(), Some(unfinished)),
            Err(_) => ("a page of the file is corrupt".to_owned(), None),
        };
        let reason = format!("{}: {reason}", self.medium.name());
        tracing::error!(reason, "store failed; reopening it");
        self.needed_bytes = self.health.refused_bytes().max(FREE_BYTES_MIN);
        let reason = self.ensure_free_space().err().unwrap_or(reason);
        self.fail(reason);
        if let Err(error) = self.reopen() {
            self.fail(error.to_string());
        }
    }

    fn fail(&mut self, reason: String) {
        self.degraded = true;
        *self.shared.failure.lock() = reason;
    }

    fn run(
        &mut self,
        requests: &mut impl Iterator<Item = Request>,
        answers: &mut Vec<Answer>,
        has_space: bool,
    ) -> Result<(), Unfinished> {
        let database = self.shared.database.read().clone();
        let database = database.ok_or_else(|| StoreFault::Broken("the store is not open".to_owned()))?;
        let mut transaction = database.begin_write()?;
        transaction.set_two_phase_commit(true);
        let wrote = {
            let mut work = Work::new(transaction.open_table(keys::TABLE)?, &mut self.memory, &self.clock);
            work.tick();
            for request in requests {
                answers.push((request.act)(&mut work)?);
            }
            if has_space {
                work.apply_retention()?;
            }
            work.write_counters()?;
            work.wrote
        };
        if wrote {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(())
    }

    /// Publishes the batch's changes and wakes waiters, now that it is fsynced.
    fn publish(&mut self) {
        if !self.memory.changes.is_empty() {
            let mut change_log = self.shared.change_log.lock();
            self.memory.changes.drain(..).for_each(|change| change_log.push(change));
            drop(change_log);
            self.shared.changed.notify_waiters();
        }
        if std::mem::take(&mut self.memory.cancelled) {
            self.shared.cancelled.notify_waiters();
        }
        if std::mem::take(&mut self.memory.assigned) {
            self.shared.assigned.notify_waiters();
        }
        let wake_hints = self.memory.index.take_wake_hints();
        for waiter in self.memory.waiters.choose(&wake_hints, &self.memory.index) {
            waiter.notify_one();
        }
    }

    /// Replaces a handle that failed for a reader, before it can fail the batch.
    fn ensure_open(&mut self) -> Result<(), String> {
        if self.shared.database.read().is_some() && !self.health.has_failed() {
            return Ok(());
        }
        self.reopen().map_err(|error| error.to_string())
    }

    /// Fails early while the disk is full: reopening the file after each failed write would cost more.
    fn ensure_free_space(&mut self) -> Result<(), String> {
        const MIB: u64 = 1024 * 1024;
        if self.needed_bytes == 0 {
            return Ok(());
        }
        self.medium.check_free_space(self.needed_bytes).map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                let (file, mib) = (self.medium.name(), self.needed_bytes.div_ceil(MIB));
                format!("{file} cannot grow ({error}): free at least {mib} MiB on its disk")
            }
            _ => StoreError::io(self.medium.name(), error).to_string(),
        })?;
        self.needed_bytes = 0;
        Ok(())
    }

    /// Reopens the store after an error. The disk is authoritative; the memory may be ahead of it.
    ///
    /// After a failed fsync the page cache may show pages that never reached the disk. Those of the failed
    /// commit do no harm: either its header was not switched, and they are free, or only the header is in
    /// doubt, and opening writes and fsyncs it again.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.health.retire();
        // Readers may hold the old handle a little longer; retired, it neither reads nor writes.
        self.close();
        let opened = open_database(&*self.medium, &self.options, &self.listener, false)?;
        // The same clock: no timestamp is before one that callers have seen.
        let same_clock = |_| Arc::clone(&self.clock);
        let empty = Memory::new(self.options, Arc::clone(&self.shared.quarantine));
        let (mut memory, _) =
            load_memory(&*self.medium, &opened.database, empty, same_clock, &self.listener)?;
        // Whether the last batch was stored is unknown, and its changes were not published: readers of
        // changes must resync.
        memory.counters.opens = memory.counters.opens.max(self.memory.counters.opens + 1);
        *self.shared.change_log.lock() =
            ChangeLog::new(self.options.change_log_capacity, memory.counters.opens);
        self.shared.changed.notify_waiters();
        self.shared.cancelled.notify_waiters();
        // Waiters check again and register again.
        std::mem::take(&mut self.memory.waiters).wake_all();
        self.memory = memory;
        self.health = opened.health;
        *self.shared.database.write() = Some(Arc::new(opened.database));
        Ok(())
    }

    fn close(&self) {
        let database = self.shared.database.write().take();
        if let Some(database) = database {
            close(database);
        }
    }

    /// Runs an operation that needs exclusive access to the file.
    pub(crate) fn with_database<T>(&mut self, act: impl FnOnce(&mut Database) -> T) -> Result<T, String> {
        // New readers wait for the lock; current ones finish soon, unless one copies the whole store.
        const TRIES_MAX: usize = 10_000;
        let mut slot = self.shared.database.write();
        let mut shared = slot.take().ok_or("the store is not open")?;
        for _ in 0..TRIES_MAX {
            match Arc::try_unwrap(shared) {
                Ok(mut database) => {
                    let answer = act(&mut database);
                    *slot = Some(Arc::new(database));
                    return Ok(answer);
                }
                Err(still_read) => shared = still_read,
            }
            std::thread::yield_now();
        }
        *slot = Some(shared);
        Err("a backup, check or export is reading the store: retry when it has finished".to_owned())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Later reads get an error; dropping the last handle closes the file cleanly.
        self.close();
    }
}

/// Drops a handle. redb panics when it closes a handle that panicked before: then there is nothing to close.
pub(crate) fn close(database: Arc<Database>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
}

fn load_memory(
    medium: &dyn Medium,
    database: &Database,
    empty: Memory,
    open_clock: impl FnOnce(Timestamp) -> Arc<StoreClock>,
    listener: &Listener,
) -> Result<(Memory, Arc<StoreClock>), StoreError> {
    let load = || load(database, empty, open_clock, listener);
    let damaged = |what| StoreError::Damaged { file: medium.name(), what };
    let memory = catch_unwind(AssertUnwindSafe(load))
        .map_err(|_| damaged("a page of the file is corrupt".to_owned()))?
        .map_err(|fault| StoreError::from_fault(medium.name(), fault))?;
    listener(crate::progress::Opening::Done);
    Ok(memory)
}
