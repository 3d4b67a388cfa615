//! Opening: checking the file, and building the memory from it.

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
use crate::guard::{Guarded, Health};
use crate::keys;
use crate::medium::Medium;
use crate::memory::Memory;
use crate::options::EmbeddedOptions;
use crate::progress::{Listener, Opening};
use crate::rows::{self, Rows};
use crate::trouble::{Outcome, Trouble};
use crate::unreadable::{self, Fault, assemble, find_task};
use crate::work::decode_counters;

/// A database that was checked, and the handle's health.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) health: Arc<Health>,
}

/// Opens the database, making it if the medium is empty and it may. Every page is checked before it is used:
/// redb trusts what it reads, and one flipped bit in a branch page makes it lose rows without a word, or
/// panic.
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
        let (seen, told) = (Arc::clone(&repaired), Arc::clone(listener));
        let mut database = Builder::new()
            .set_cache_size(options.page_cache_bytes)
            .set_repair_callback(move |session| {
                seen.store(true, Ordering::Relaxed);
                told(Opening::Repairing { percent: (session.progress() * 100.0) as u8 });
            })
            .create_with_backend(backend)
            .map_err(|error| of_database(medium, error))?;
        // What was not closed cleanly has just been checked.
        if !repaired.load(Ordering::Relaxed) {
            listener(Opening::Verifying);
            let clean = database.check_integrity().map_err(|error| of_database(medium, error))?;
            if !clean {
                tracing::warn!(file = medium.name(), "the store's list of free pages was rebuilt");
            }
        }
        make_table(&database).map_err(|trouble| StoreError::of_trouble(medium.name(), trouble))?;
        Ok(Opened { database, health })
    };
    // redb panics on some damaged pages. That also writes a line to stderr: the hook that does belongs to the
    // process, not to a library.
    catch_unwind(AssertUnwindSafe(open))
        .unwrap_or_else(|_| Err(damaged("a page of it is not what was written".to_owned())))
}

/// A store has its table from the beginning: nobody has to ask whether it is there.
fn make_table(database: &Database) -> Outcome<()> {
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

/// Builds the memory from what is on disk.
pub(crate) fn load(
    database: &Database,
    mut memory: Memory,
    open_clock: impl FnOnce(Timestamp) -> Arc<StoreClock>,
    listener: &Listener,
) -> Outcome<(Memory, Arc<StoreClock>)> {
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

fn load_names(table: &impl Rows, memory: &mut Memory) -> Outcome<()> {
    let mut names = Vec::new();
    for row in rows::scan_all(table, &[keys::NAMESPACE])? {
        let (key, _) = row?;
        let text =
            std::str::from_utf8(&key.value()[1..]).ok().and_then(|text| Namespace::try_from(text).ok());
        let Some(name) = text else { return Err(Trouble::damaged(key.value(), "it is not a name")) };
        let number = rows::namespace_number(table, &name)?.unwrap_or_default();
        names.push((number, name));
    }
    names.sort_unstable();
    for (number, name) in names {
        let key = keys::namespace(name.as_str());
        if !memory.names.add(name, number) {
            return Err(Trouble::damaged(&key, "the numbers of the namespaces have a gap"));
        }
    }
    Ok(())
}

/// The counts of queues as they are stored.
type StoredCounts = Vec<((Namespace, QueueName), StateCounts)>;

/// Takes in settings and counts; returns how many tasks there should be. A queue whose row cannot be read
/// counts as paused, and what ended in it is counted anew.
fn load_queues(table: &impl Rows, memory: &mut Memory) -> Outcome<StoredCounts> {
    let mut all = Vec::new();
    for row in rows::scan_all(table, &[keys::QUEUE])? {
        let (key, value) = row?;
        let key = key.value();
        let named = keys::split_named(key).and_then(|(number, name)| {
            Some((number, memory.names.name(number)?.clone(), QueueName::try_from(name).ok()?))
        });
        let Some((number, namespace, queue)) = named else {
            return Err(Trouble::damaged(key, "it has no name"));
        };
        let stored = match unreadable::decode(key, value.value(), decode_queue) {
            Ok(stored) => stored,
            Err(why) => {
                let (kind, found_at) = (RecordKind::QueueSettings, memory.index.now());
                let finding = Quarantined::new(kind, namespace.clone(), queue.as_str(), why, found_at);
                memory.quarantine.add(Quarantined { queue: Some(queue.clone()), ..finding });
                memory.unread_queues.insert((namespace.clone(), queue.clone()));
                let settings = QueueSettings { paused: true, max_running: None };
                let counts = count_ended(table, &namespace, number, &queue)?;
                // Of some version, so that it is known that something was set.
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

/// Counts what ended in a queue.
fn count_ended(
    table: &impl Rows,
    namespace: &Namespace,
    number: u32,
    queue: &QueueName,
) -> Outcome<StateCounts> {
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

/// Reads every live task once and forgets it again, but for what the index keeps.
fn load_live(
    table: &impl Rows,
    memory: &mut Memory,
    stored: &StoredCounts,
    listener: &Listener,
) -> Outcome<()> {
    const TOLD_EVERY: u64 = 50_000;
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
            return Err(Trouble::damaged(key, "it is not a key"));
        };
        let (number, id) = match (key[1..5].first_chunk(), keys::id_of(key)) {
            (Some(number), Some(id)) => (u32::from_be_bytes(*number), id),
            _ => return Err(Trouble::damaged(key, "it is not a key")),
        };
        let Some(namespace) = memory.names.name(number).cloned() else {
            return Err(Trouble::damaged(key, "its namespace is not known"));
        };
        let spec = specs.read(&keys::task(keys::SPEC, number, id))?;
        let spec = spec.as_ref().map(|value| value.value());
        match assemble(&namespace, id, spec, key, value.value()) {
            Ok(record) => tally.take_in(memory, &record),
            Err(fault) => tally.set_aside(memory, &fault),
        }
        tally.rows += 1;
        if tally.rows % TOLD_EVERY == 0 {
            listener(Opening::Loading { done: tally.rows, total });
        }
    }
    tally.check(memory, stored, total)
}

/// What was found among the live tasks.
#[derive(Default)]
struct Tally {
    rows: u64,
    /// Those that ended and are held: counted among the ended.
    held: u64,
    /// Those that cannot be read, by whether they are known to have yet to end.
    unread_live: u64,
    unread: u64,
}

impl Tally {
    fn take_in(&mut self, memory: &mut Memory, record: &TaskRecord) {
        self.held += u64::from(record.state.is_terminal());
        memory.index.insert(record);
        if let Some(held) = &record.lease {
            // How long the store was closed is not known if the wall clock was set meanwhile, and a worker
            // that could not renew all that time is given the chance: a lease found here lasts one TTL more.
            let until = memory.index.now().saturating_add(held.ttl);
            memory.index.renewed(record.key.id, held.expires_at.max(until));
        }
    }

    fn set_aside(&mut self, memory: &mut Memory, fault: &Fault) {
        match fault.state {
            Some(state) if state.is_terminal() => self.held += 1,
            Some(_) => self.unread_live += 1,
            None => self.unread += 1,
        }
        let (id, hold) = (fault.key.id, fault.hold());
        memory.index.hold(id, &hold);
        memory.holds.insert(id, hold);
        memory.quarantine.add(fault.finding(memory.index.now()));
    }

    /// Compares what was counted with what is there; tasks that cannot be read stay counted where they were.
    fn check(&self, memory: &mut Memory, stored: &StoredCounts, total: u64) -> Outcome<()> {
        let there = self.rows - self.held;
        let is_right = if memory.unread_queues.is_empty() {
            (there - self.unread..=there).contains(&total)
        } else {
            total <= there
        };
        if !is_right {
            let why = format!("{total} live tasks were counted and {there} are there");
            return Err(Trouble::damaged(&keys::meta("counters"), why));
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

/// Reads specifications in order. Most live tasks stand side by side: walking to the next row costs a
/// fraction of looking it up.
struct SpecReader<'a, R: Rows> {
    rows: &'a R,
    next: Option<Box<dyn Iterator<Item = Outcome<rows::Row<'a>>> + 'a>>,
}

impl<'a, R: Rows> SpecReader<'a, R> {
    fn new(rows: &'a R) -> Self {
        Self { rows, next: None }
    }

    /// The sealed value of a specification, if it is there.
    fn read(&mut self, key: &[u8]) -> Outcome<Option<rows::Lent<'a>>> {
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
