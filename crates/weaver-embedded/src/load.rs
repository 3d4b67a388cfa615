//! Opening: checking the file, and building the memory from it.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageError};
use weaver_core::name::{Namespace, QueueName};
use weaver_core::store_clock::{StoreClock, StoreNow};
use weaver_core::time::Timestamp;

use crate::codec::{decode_queue, decode_spec, record_from};
use crate::error::StoreError;
use crate::guard::{Guarded, Health};
use crate::keys;
use crate::medium::Medium;
use crate::memory::Memory;
use crate::options::EmbeddedOptions;
use crate::progress::{Listener, Opening};
use crate::rows::{self, Rows};
use crate::trouble::{OfRow, Outcome, Trouble};
use crate::work::decode_counters;

/// A database that was checked, and the handle's health.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) health: Arc<Health>,
}

/// Opens the database, making it if the medium is empty and it may. Every page is checked before it is used: redb trusts
/// what it reads, and one flipped bit in a branch page makes it lose rows without a word, or panic.
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
    // redb panics on some damaged pages. That also writes a line to stderr: the hook that does belongs to the process,
    // not to a library.
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
    options: EmbeddedOptions,
    open_clock: impl FnOnce(Timestamp) -> Arc<StoreClock>,
    listener: &Listener,
) -> Outcome<(Memory, Arc<StoreClock>)> {
    let mut memory = Memory::new(options);
    let table = database.begin_read()?.open_table(keys::TABLE)?;
    if let Some(counters) = rows::read(&table, &keys::meta("counters"), decode_counters)? {
        (memory.counters, memory.stored_counters) = (counters, counters);
    }
    memory.counters.opens += 1;
    let clock = open_clock(memory.counters.latest);
    let now = clock.now();
    memory.index.tick(StoreNow { steady: now.steady.max(memory.counters.latest), ..now });
    load_names(&table, &mut memory)?;
    let live = load_queues(&table, &mut memory)?;
    load_live(&table, &mut memory, live, listener)?;
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

/// Takes in settings and counts; returns how many live tasks there should be.
fn load_queues(table: &impl Rows, memory: &mut Memory) -> Outcome<u64> {
    let mut live = 0;
    for row in rows::scan_all(table, &[keys::QUEUE])? {
        let (key, value) = row?;
        let key = key.value();
        let stored = decode_queue(rows::body_of(key, value.value())?).of_row(key)?;
        let named = keys::split_named(key).and_then(|(number, name)| {
            Some((memory.names.name(number)?.clone(), QueueName::try_from(name).ok()?))
        });
        let Some((namespace, queue)) = named else { return Err(Trouble::damaged(key, "it has no name")) };
        memory.index.restore_queue(&namespace, &queue, stored.settings, stored.version, &stored.counts);
        for (state, count) in stored.counts.iter() {
            *(if state.is_terminal() { &mut memory.finished } else { &mut live }) += count;
        }
    }
    Ok(live)
}

/// Reads every live task once and forgets it again, but for what the index keeps.
fn load_live(table: &impl Rows, memory: &mut Memory, total: u64, listener: &Listener) -> Outcome<()> {
    const TOLD_EVERY: u64 = 50_000;
    let mut done = 0;
    let mut held = 0;
    let mut specs = SpecReader::new(table);
    for row in rows::scan_all(table, &[keys::LIVE])? {
        let (key, value) = row?;
        let key = key.value();
        let (number, id) = match (key.get(1..5).and_then(|bytes| bytes.first_chunk()), keys::id_of(key)) {
            (Some(number), Some(id)) => (u32::from_be_bytes(*number), id),
            _ => return Err(Trouble::damaged(key, "it is not a key")),
        };
        let Some(namespace) = memory.names.name(number).cloned() else {
            return Err(Trouble::damaged(key, "its namespace is not known"));
        };
        let (spec, created_at) = specs.read(&keys::task(keys::SPEC, number, id))?;
        let body = rows::body_of(key, value.value())?;
        let record = record_from(namespace, id, Arc::new(spec), created_at, body).of_row(key)?;
        held += u64::from(record.state.is_terminal());
        memory.index.insert(&record);
        if let Some(held) = &record.lease {
            // How long the store was closed is not known if the wall clock was set meanwhile, and a worker that could not
            // renew all that time is given the chance: a lease found here lasts one TTL more.
            let until = memory.index.now().saturating_add(held.ttl);
            memory.index.renewed(id, held.expires_at.max(until));
        }
        done += 1;
        if done % TOLD_EVERY == 0 {
            listener(Opening::Loading { done, total });
        }
    }
    if done - held != total {
        let why = format!("{total} live tasks were counted and {} are there", done - held);
        return Err(Trouble::damaged(&keys::meta("counters"), why));
    }
    Ok(())
}

/// Reads specifications in order. Most live tasks stand side by side: walking to the next row costs a fraction of
/// looking it up.
struct SpecReader<'a, R: Rows> {
    rows: &'a R,
    next: Option<Box<dyn Iterator<Item = Outcome<rows::Row<'a>>> + 'a>>,
}

impl<'a, R: Rows> SpecReader<'a, R> {
    fn new(rows: &'a R) -> Self {
        Self { rows, next: None }
    }

    fn read(&mut self, key: &[u8]) -> Outcome<(weaver_core::task::TaskSpec, weaver_core::time::Timestamp)> {
        const STEPS: usize = 8;
        let steps = self.next.as_mut().into_iter().flat_map(|next| next.take(STEPS));
        for row in steps {
            let (found, value) = row?;
            if found.value() == key {
                return decode_spec(rows::body_of(key, value.value())?).of_row(key);
            }
            if found.value() > key {
                break;
            }
        }
        let from = Bound::Included(key.to_vec());
        let mut next = Box::new(rows::scan(self.rows, &[keys::SPEC], from, Bound::Unbounded)?);
        let found = next.next().transpose()?;
        self.next = Some(next);
        match found {
            Some((found, value)) if found.value() == key => {
                decode_spec(rows::body_of(key, value.value())?).of_row(key)
            }
            _ => Err(Trouble::damaged(key, "it is missing")),
        }
    }
}
