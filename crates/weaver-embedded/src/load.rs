//! Opening: verifies the file and builds the in-memory index from it.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageError};
use weaver_core::id::Version;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{QueueSettings, Selector, StateCounts};
use weaver_core::quarantine::{Quarantined, RecordKind};
use weaver_core::store_clock::{StoreClock, StoreNow};
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use crate::codec::{StoredQueue, decode_queue};
use crate::error::StoreError;
use crate::fault::{StoreFault, StoreResult};
use crate::guard::{Guarded, Health};
use crate::keys;
use crate::medium::Medium;
use crate::memory::Memory;
use crate::options::EmbeddedOptions;
use crate::progress::{Listener, Opening};
use crate::rows::{self, Rows};
use crate::unreadable::{self, UnreadableTask, assemble, find_task};
use crate::work::decode_counters;

/// A verified database, and the handle's health.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) health: Arc<Health>,
}

/// Opens the database; creates it if the medium is empty and `may_create`. Every page is verified before use:
/// redb trusts what it reads, and one flipped bit in a branch page makes it lose rows silently, or panic.
pub(crate) fn open_database(
    medium: &dyn Medium,
    options: &EmbeddedOptions,
    listener: &Listener,
    may_create: bool,
) -> Result<Opened, StoreError> {
    let damaged = |what: String| StoreError::Damaged { file: medium.name(), what };
    let open = || -> Result<Opened, StoreError> {
        let io = |source| StoreError::io(medium.name(), source);
        let health = Arc::new(Health::default());
        let backend =
            Guarded::new(medium.open().map_err(io)?, Arc::clone(&health), may_create).map_err(io)?;
        let repaired = Arc::new(AtomicBool::new(false));
        let (seen, progress) = (Arc::clone(&repaired), Arc::clone(listener));
        let mut database = Builder::new()
            .set_cache_size(options.page_cache_bytes)
            .set_repair_callback(move |session| {
                seen.store(true, Ordering::Relaxed);
                progress(Opening::Repairing { percent: (session.progress() * 100.0) as u8 });
            })
            .create_with_backend(backend)
            .map_err(|error| of_database(medium, error))?;
        // A file that was not closed cleanly has just been verified by the repair.
        if !repaired.load(Ordering::Relaxed) {
            listener(Opening::Verifying);
            let clean = database.check_integrity().map_err(|error| of_database(medium, error))?;
            if !clean {
                tracing::warn!(file = medium.name(), "rebuilt the store's free-page list");
            }
        }
        make_table(&database).map_err(|fault| StoreError::from_fault(medium.name(), fault))?;
        Ok(Opened { database, health })
    };
    // redb panics on some damaged pages. The panic hook also prints a line to stderr; it belongs to the
    // process, so a library must not replace it.
    catch_unwind(AssertUnwindSafe(open))
        .unwrap_or_else(|_| Err(damaged("a page of the file is corrupt".to_owned())))
}

/// Creates the table when the store is created, so that no reader has to handle its absence.
fn make_table(database: &Database) -> StoreResult<()> {
    match database.begin_read()?.open_table(keys::TABLE) {
        Ok(_) => return Ok(()),
        Err(redb::TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.open_table(keys::TABLE)?;
    Ok(transaction.commit()?)
}

fn of_database(medium: &dyn Medium, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::Storage(StorageError::Io(source)) => StoreError::io(medium.name(), source),
        other => StoreError::Damaged { file: medium.name(), what: other.to_string() },
    }
}

/// Builds the in-memory state from the file.
pub(crate) fn load(
    database: &Database,
    mut memory: Memory,
    open_clock: impl FnOnce(Timestamp) -> Arc<StoreClock>,
    listener: &Listener,
) -> StoreResult<(Memory, Arc<StoreClock>)> {
    let table = database.begin_read()?.open_table(keys::TABLE)?;
    if let Some(counters) = rows::read(&table, &keys::meta("counters"), decode_counters)? {
        (memory.counters, memory.stored_counters) = (counters, counters);
    }
    memory.counters.opens += 1;
    let clock = open_clock(memory.counters.latest);
    let now = clock.now();
    memory.index.tick(StoreNow { steady: now.steady.max(memory.counters.latest), ..now });
    load_names(&table, &mut memory)?;
    let stored = load_queues(&table, &mut memory)?;
    load_live(&table, &mut memory, &stored, listener)?;
    memory.trash = rows::scan_all(&table, &[keys::TRASH])?.next().is_some();
    Ok((memory, clock))
}

fn load_names(table: &impl Rows, memory: &mut Memory) -> StoreResult<()> {
    let mut names = Vec::new();
    for row in rows::scan_all(table, &[keys::NAMESPACE])? {
        let (key, _) = row?;
        let text =
            std::str::from_utf8(&key.value()[1..]).ok().and_then(|text| Namespace::try_from(text).ok());
        let Some(name) = text else { return Err(StoreFault::damaged(key.value(), "its name is invalid")) };
        let number = rows::namespace_number(table, &name)?.unwrap_or_default();
        names.push((number, name));
    }
    names.sort_unstable();
    for (number, name) in names {
        let key = keys::namespace(name.as_str());
        if !memory.names.add(name, number) {
            return Err(StoreFault::damaged(&key, "namespace numbers have a gap"));
        }
    }
    Ok(())
}

/// The stored counts of every queue.
type StoredCounts = Vec<((Namespace, QueueName), StateCounts)>;

/// Loads settings and counts; returns the stored counts. A queue whose row cannot be read counts as paused,
/// and its finished tasks are recounted.
fn load_queues(table: &impl Rows, memory: &mut Memory) -> StoreResult<StoredCounts> {
    let mut all = Vec::new();
    for row in rows::scan_all(table, &[keys::QUEUE])? {
        let (key, value) = row?;
        let key = key.value();
        let named = keys::split_named(key).and_then(|(number, name)| {
            Some((number, memory.names.name(number)?.clone(), QueueName::try_from(name).ok()?))
        });
        let Some((number, namespace, queue)) = named else {
            return Err(StoreFault::damaged(key, "its name is invalid"));
        };
        let stored = match unreadable::decode(key, value.value(), decode_queue) {
            Ok(stored) => stored,
            Err(why) => {
                let (kind, found_at) = (RecordKind::QueueSettings, memory.index.now());
                let finding = Quarantined::new(kind, namespace.clone(), queue.as_str(), why, found_at);
                memory.quarantine.add(Quarantined { queue: Some(queue.clone()), ..finding });
                memory.unread_queues.insert((namespace.clone(), queue.clone()));
                let settings = QueueSettings { paused: true, ..QueueSettings::default() };
                let counts = count_ended(table, &namespace, number, &queue)?;
                // A version above 0: settings exist.
                StoredQueue { counts, settings, version: Version(1) }
            }
        };
        memory.index.restore_queue(&namespace, &queue, stored.settings, stored.version, &stored.counts);
        let ended = stored.counts.iter().filter(|(state, _)| state.is_terminal()).map(|(_, count)| count);
        memory.finished += ended.sum::<u64>();
        all.push(((namespace, queue), stored.counts));
    }
    Ok(all)
}

/// Counts the finished tasks of a queue.
fn count_ended(
    table: &impl Rows,
    namespace: &Namespace,
    number: u32,
    queue: &QueueName,
) -> StoreResult<StateCounts> {
    let mut counts = StateCounts::default();
    let prefix = keys::lookup_prefix(number, &Selector::Queue(queue.clone())).unwrap_or_default();
    for row in rows::scan_all(table, &prefix)? {
        let (key, _) = row?;
        let Some(id) = keys::id_of(key.value()) else { continue };
        if let Some(Ok(record)) = find_task(table, namespace, number, id)?
            && record.state.is_terminal()
        {
            counts.add(record.state);
        }
    }
    Ok(counts)
}

/// Reads every live task once; only its index entry stays in memory.
fn load_live(
    table: &impl Rows,
    memory: &mut Memory,
    stored: &StoredCounts,
    listener: &Listener,
) -> StoreResult<()> {
    const REPORT_EVERY: u64 = 50_000;
    let live = |counts: &StateCounts| -> u64 {
        counts.iter().filter(|(state, _)| !state.is_terminal()).map(|(_, count)| count).sum()
    };
    let total = stored.iter().map(|(_, counts)| live(counts)).sum();
    let mut tally = Tally::default();
    let mut specs = SpecReader::new(table);
    for row in rows::scan_all(table, &[keys::LIVE])? {
        let (key, value) = row?;
        let key = key.value();
        let Ok(key) = <&[u8; 13]>::try_from(key) else {
            return Err(StoreFault::damaged(key, "its key is malformed"));
        };
        let (number, id) = match (key[1..5].first_chunk(), keys::id_of(key)) {
            (Some(number), Some(id)) => (u32::from_be_bytes(*number), id),
            _ => return Err(StoreFault::damaged(key, "its key is malformed")),
        };
        let Some(namespace) = memory.names.name(number).cloned() else {
            return Err(StoreFault::damaged(key, "its namespace is unknown"));
        };
        let spec = specs.read(&keys::task(keys::SPEC, number, id))?;
        let spec = spec.as_ref().map(|value| value.value());
        match assemble(&namespace, id, spec, key, value.value()) {
            Ok(record) => tally.take_in(memory, &record),
            Err(unreadable) => tally.set_aside(memory, &unreadable),
        }
        tally.rows += 1;
        if tally.rows % REPORT_EVERY == 0 {
            listener(Opening::Loading { done: tally.rows, total });
        }
    }
    tally.check(memory, stored, total)
}

/// Counts of the live rows while they are loaded.
#[derive(Default)]
struct Tally {
    rows: u64,
    /// Cancelled tasks with a cancellation hold: counted as finished.
    held: u64,
    /// Unreadable tasks whose state is known and not terminal; `unread`: whose state is unknown.
    unread_live: u64,
    unread: u64,
}

impl Tally {
    fn take_in(&mut self, memory: &mut Memory, record: &TaskRecord) {
        self.held += u64::from(record.state.is_terminal());
        memory.index.insert(record);
        if let Some(held) = &record.lease {
            // How long the store was closed is unknown if the wall clock was set meanwhile, and workers could
            // not renew while it was: lease expiry is at least one TTL after opening.
            let until = memory.index.now().saturating_add(held.ttl);
            memory.index.renewed(record.key.id, held.expires_at.max(until));
        }
    }

    fn set_aside(&mut self, memory: &mut Memory, unreadable: &UnreadableTask) {
        match unreadable.state {
            Some(state) if state.is_terminal() => self.held += 1,
            Some(_) => self.unread_live += 1,
            None => self.unread += 1,
        }
        let (id, hold) = (unreadable.key.id, unreadable.hold());
        memory.index.add_unreadable(id, &hold);
        memory.holds.insert(id, hold);
        memory.quarantine.add(unreadable.finding(memory.index.now()));
    }

    /// Compares the stored counts with the rows found; unreadable tasks stay counted where they were.
    fn check(&self, memory: &mut Memory, stored: &StoredCounts, total: u64) -> StoreResult<()> {
        let there = self.rows - self.held;
        let is_right = if memory.unread_queues.is_empty() {
            (there - self.unread..=there).contains(&total)
        } else {
            total <= there
        };
        if !is_right {
            let why = format!("{total} live tasks are counted and {there} are stored");
            return Err(StoreFault::damaged(&keys::meta("counters"), why));
        }
        if self.unread + self.unread_live == 0 {
            return Ok(());
        }
        for ((namespace, queue), counts) in stored {
            let loaded =
                memory.index.queue(namespace, queue).map(|(_, _, counts)| counts).unwrap_or_default();
            for (state, count) in counts.iter().filter(|(state, _)| !state.is_terminal()) {
                let missing = count.saturating_sub(loaded.get(state));
                if missing > 0 {
                    let place = (namespace.clone(), queue.clone());
                    memory.unread_counts.entry(place).or_default().add_many(state, missing);
                    (0..missing).for_each(|_| memory.index.remember(namespace, queue, state));
                }
            }
        }
        Ok(())
    }
}

/// Reads specs in key order. Most live tasks are adjacent: stepping to the next row costs a fraction of a
/// lookup.
struct SpecReader<'a, R: Rows> {
    rows: &'a R,
    next: Option<Box<dyn Iterator<Item = StoreResult<rows::Row<'a>>> + 'a>>,
}

impl<'a, R: Rows> SpecReader<'a, R> {
    fn new(rows: &'a R) -> Self {
        Self { rows, next: None }
    }

    /// The sealed value of a spec, if it is there.
    fn read(&mut self, key: &[u8]) -> StoreResult<Option<rows::Lent<'a>>> {
        const STEPS: usize = 8;
        let steps = self.next.as_mut().into_iter().flat_map(|next| next.take(STEPS));
        for row in steps {
            let (found, value) = row?;
            if found.value() == key {
                return Ok(Some(value));
            }
            if found.value() > key {
                break;
            }
        }
        let from = Bound::Included(key.to_vec());
        let mut next = Box::new(rows::scan(self.rows, &[keys::SPEC], from, Bound::Unbounded)?);
        let found = next.next().transpose()?;
        self.next = Some(next);
        Ok(found.filter(|(found, _)| found.value() == key).map(|(_, value)| value))
    }
}
