//! The engine: takes what everybody waiting wants, does it in one transaction, syncs once, answers all (G1).
//!
//! ```text
//! jobs ─▶ run each on Work ─▶ commit: written, synced, switched, synced ─▶ changes, wake-ups, answers
//!                  │ error or panic
//!                  └──▶ everybody waiting hears of it ─▶ open again ─▶ build the memory anew
//! ```
//!
//! While the disk is full, whoever only reads is served, and whoever writes is refused before anything is
//! tried.

use std::any::Any;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use redb::Database;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::quarantine::Quarantine;
use weaver_core::queue::ring::Ring;
use weaver_core::store_clock::StoreClock;
use weaver_core::time::Timestamp;

use crate::error::StoreError;
use crate::guard::Health;
use crate::keys;
use crate::load::{load, open_database};
use crate::medium::Medium;
use crate::memory::Memory;
use crate::options::EmbeddedOptions;
use crate::progress::Listener;
use crate::trouble::Trouble;
use crate::work::Work;

/// Something to do in a batch. Dropped at any time, it tells its caller that it was not done.
pub(crate) struct Job {
    act: Act,
    writes: bool,
}

/// What it does. What it returns is done once the batch is synced.
pub(crate) type Act = Box<dyn FnOnce(&mut Work<'_>) -> Result<Answer, Unfinished> + Send>;
pub(crate) type Answer = Box<dyn FnOnce() + Send>;

/// Work that broke off. Its caller waits until this is dropped, and then asks for the reason.
pub(crate) struct Unfinished {
    pub(crate) trouble: Trouble,
    pub(crate) _caller: Option<Box<dyn Any + Send>>,
}

impl<T: Into<Trouble>> From<T> for Unfinished {
    fn from(trouble: T) -> Self {
        Self { trouble: trouble.into(), _caller: None }
    }
}

impl Job {
    pub(crate) fn writing(act: Act) -> Self {
        Self { act, writes: true }
    }

    /// One that writes nothing.
    pub(crate) fn reading(act: Act) -> Self {
        Self { act, writes: false }
    }
}

/// After the disk was full: less than that free is not worth a try.
const ROOM_BYTES: u64 = 4 * 1024 * 1024;

/// What readers see beside the writer.
#[derive(Debug)]
pub(crate) struct Shared {
    /// `None` while the store is being opened again.
    pub(crate) database: RwLock<Option<Arc<Database>>>,
    pub(crate) ring: Mutex<Ring>,
    /// Rung after every batch that wrote into the ring.
    pub(crate) changed: Notify,
    /// Rung after every batch that cancelled a running task.
    pub(crate) cancelled: Notify,
    /// What went wrong last.
    pub(crate) failure: Mutex<String>,
    /// What this process could not read.
    pub(crate) quarantine: Arc<Quarantine>,
}

pub(crate) struct Engine {
    medium: Arc<dyn Medium>,
    options: EmbeddedOptions,
    clock: Arc<StoreClock>,
    listener: Listener,
    shared: Arc<Shared>,
    memory: Memory,
    /// That of the handle in use.
    health: Arc<Health>,
    /// How much room the disk lacked when it was full last, until it has that much; 0: it has room.
    lacking_bytes: u64,
    /// Whether the last batch failed: nothing is done unasked until one succeeds.
    ailing: bool,
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
            ring: Mutex::new(Ring::new(options.ring_capacity, memory.counters.opens)),
            database: RwLock::new(Some(Arc::new(opened.database))),
            changed: Notify::new(),
            cancelled: Notify::new(),
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
            lacking_bytes: 0,
            ailing: false,
        };
        Ok((engine, shared))
    }

    /// Whether there is something to do although nobody asks.
    pub(crate) fn has_chores(&self) -> bool {
        self.memory.trash && !self.ailing
    }

    /// Does what everybody waiting wants.
    ///
    /// Dropping a job or its answer tells its caller, who then looks for the reason: that is noted first.
    pub(crate) fn process(&mut self, mut jobs: Vec<Job>) {
        if let Err(reason) = self.ensure_open() {
            return self.fail(reason);
        }
        let room = self.ensure_room();
        let has_room = room.is_ok();
        if let Err(reason) = room {
            self.fail(reason);
            jobs.retain(|job| !job.writes);
        }
        let mut answers = Vec::with_capacity(jobs.len());
        let mut jobs = jobs.into_iter();
        let result = catch_unwind(AssertUnwindSafe(|| self.run(&mut jobs, &mut answers, has_room)));
        let (reason, _unfinished) = match result {
            Ok(Ok(())) => {
                self.ailing = !has_room;
                self.publish();
                return answers.into_iter().for_each(|answer| answer());
            }
            Ok(Err(unfinished)) => (unfinished.trouble.to_string(), Some(unfinished)),
            Err(_) => ("a page of it is not what was written".to_owned(), None),
        };
        let reason = format!("{}: {reason}", self.medium.name());
        tracing::error!(reason, "the store failed and is opened again");
        self.lacking_bytes = self.health.refused_bytes().max(ROOM_BYTES);
        let reason = self.ensure_room().err().unwrap_or(reason);
        self.fail(reason);
        if let Err(error) = self.reopen() {
            self.fail(error.to_string());
        }
    }

    fn fail(&mut self, reason: String) {
        self.ailing = true;
        *self.shared.failure.lock() = reason;
    }

    fn run(
        &mut self,
        jobs: &mut impl Iterator<Item = Job>,
        answers: &mut Vec<Answer>,
        has_room: bool,
    ) -> Result<(), Unfinished> {
        let database = self.shared.database.read().clone();
        let database = database.ok_or_else(|| Trouble::Broken("the store is not open".to_owned()))?;
        let mut transaction = database.begin_write()?;
        transaction.set_two_phase_commit(true);
        let wrote = {
            let mut work = Work::new(transaction.open_table(keys::TABLE)?, &mut self.memory, &self.clock);
            work.tick();
            for job in jobs {
                answers.push((job.act)(&mut work)?);
            }
            if has_room {
                work.tidy()?;
            }
            work.settle()?;
            work.wrote
        };
        if wrote {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(())
    }

    /// Tells the world what is now synced.
    fn publish(&mut self) {
        if !self.memory.changes.is_empty() {
            let mut ring = self.shared.ring.lock();
            self.memory.changes.drain(..).for_each(|change| ring.push(change));
            drop(ring);
            self.shared.changed.notify_waiters();
        }
        if std::mem::take(&mut self.memory.cancelled) {
            self.shared.cancelled.notify_waiters();
        }
        let news = self.memory.index.take_news();
        for waiter in self.memory.waiters.choose(&news, &self.memory.index) {
            waiter.notify_one();
        }
    }

    /// A handle that failed in a reader's hands is replaced here, before it can fail those who wait.
    fn ensure_open(&mut self) -> Result<(), String> {
        if self.shared.database.read().is_some() && !self.health.has_failed() {
            return Ok(());
        }
        self.reopen().map_err(|error| error.to_string())
    }

    /// Refuses before anything is tried that could only fail: opening again after each failure would cost
    /// more than the failure.
    fn ensure_room(&mut self) -> Result<(), String> {
        const MIB: u64 = 1024 * 1024;
        if self.lacking_bytes == 0 {
            return Ok(());
        }
        self.medium.check_room(self.lacking_bytes).map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                let (file, mib) = (self.medium.name(), self.lacking_bytes.div_ceil(MIB));
                format!("{file} cannot grow ({error}): free at least {mib} MiB on its disk")
            }
            _ => StoreError::io(self.medium.name(), error).to_string(),
        })?;
        self.lacking_bytes = 0;
        Ok(())
    }

    /// Opens the store again after an error: what is on disk is what counts, and the memory may be ahead of
    /// it.
    ///
    /// After a failed sync the system may show pages that never got to the disk. Those of the commit that
    /// failed do no harm: either its header was not switched, and they are free, or only the header is in
    /// doubt, and opening writes and syncs that again.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.health.retire();
        // Readers may hold it a little longer; retired, it does no harm.
        self.close();
        let opened = open_database(&*self.medium, &self.options, &self.listener, false)?;
        // Its time goes on as it was: no stamp is before one that callers have seen.
        let same_clock = |_| Arc::clone(&self.clock);
        let empty = Memory::new(self.options, Arc::clone(&self.shared.quarantine));
        let (mut memory, _) =
            load_memory(&*self.medium, &opened.database, empty, same_clock, &self.listener)?;
        // Whether the last batch was stored is not known, and its changes were not published: a new life
        // begins.
        memory.counters.opens = memory.counters.opens.max(self.memory.counters.opens + 1);
        *self.shared.ring.lock() = Ring::new(self.options.ring_capacity, memory.counters.opens);
        self.shared.changed.notify_waiters();
        self.shared.cancelled.notify_waiters();
        // Whoever waits looks again, and registers again.
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

    /// Runs something that needs the whole file to itself.
    pub(crate) fn with_database<T>(&mut self, act: impl FnOnce(&mut Database) -> T) -> Result<T, String> {
        // New readers wait for the lock; those at work are done in a moment, unless one copies the whole
        // store.
        const LOOKS: usize = 10_000;
        let mut slot = self.shared.database.write();
        let mut shared = slot.take().ok_or("the store is not open")?;
        for _ in 0..LOOKS {
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
        Err("somebody is reading the whole store: try again when that is done".to_owned())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Readers are gone or get an error from now on; the last handle closes the file cleanly.
        self.close();
    }
}

/// Gives a handle up. redb panics when it closes one that panicked before: then there is nothing left to
/// close.
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
        .map_err(|_| damaged("a page of it is not what was written".to_owned()))?
        .map_err(|trouble| StoreError::of_trouble(medium.name(), trouble))?;
    listener(crate::progress::Opening::Done);
    Ok(memory)
}
