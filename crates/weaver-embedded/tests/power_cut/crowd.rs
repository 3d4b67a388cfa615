//! Several concurrent clients, group-committed by the store's own thread, until the power is cut.
//!
//! Which calls share a batch depends on the machine, so there is no twin: each client records what was
//! acknowledged to it, and that must be there afterwards.

use std::sync::Arc;

use bytes::Bytes;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::error::Result;
use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::id::{LeaseToken, TaskKey, Version};
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{DocumentKey, Documents, Expect, Journal, ReadFrom, Seq, StreamKey};
use weaver_core::queue::{Committed, Queue};
use weaver_core::task::{NewTask, TaskState};
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};
use weaver_testkit::harness::{queue, worker};

use crate::support::contents::{Contents, KIND};
use crate::support::power::PowerMedium;
use crate::support::ram::RamMedium;
use crate::support::rng::Rng;

const BATCH: usize = 3;
const CLIENTS: [&str; 4] = ["ada", "bob", "cyd", "dan"];

/// What was acknowledged to a client.
#[derive(Debug, Default)]
struct Acknowledged {
    name: &'static str,
    enqueued: Vec<TaskKey>,
    leased: Vec<Leased>,
    ended: Vec<(TaskKey, Version)>,
    document: Option<(Version, Bytes)>,
    appended: Seq,
    events: Vec<Change>,
    cursor: Option<ChangeCursor>,
}

/// Runs the clients until the power is cut, and checks the store against their acknowledgements.
pub(crate) async fn work_until_the_cut(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let clock = ManualClock::default();
    let made = RamMedium::new();
    drop(open(Arc::new(made.clone()), &clock, false)?);
    let disk = PowerMedium::with(made.bytes(), rng.next());
    disk.cut_after(rng.below(600));
    let acked = match open(Arc::new(disk.clone()), &clock, true) {
        Ok(store) => {
            let [a, b, c, d] = CLIENTS.map(|name| client(&store, &clock, name, rng.next()));
            let (a, b, c, d) = tokio::join!(a, b, c, d);
            vec![a, b, c, d]
        }
        // The power was cut while the store was opening.
        Err(_) => Vec::new(),
    };
    let store = open(Arc::new(RamMedium::with(disk.cut())), &clock, false)?;
    let found = Contents::read(&store, &Namespace::default()).await.map_err(|error| error.to_string())?;
    found.agree(&store, &Namespace::default()).await?;
    for group in &found.groups {
        if group.counts.total() != BATCH as u64 {
            return Err(format!("batch {} is there in part: {:?}", group.id, group.counts));
        }
    }
    for acked in acked {
        let name = acked.name;
        acked.check(&store, &found).await.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn open(
    medium: Arc<dyn weaver_embedded::Medium>,
    clock: &ManualClock,
    own_thread: bool,
) -> Result<EmbeddedStore, String> {
    let clock = Arc::new(clock.clone());
    EmbeddedStore::open_on(medium, clock, EmbeddedOptions::default(), own_thread)
        .map_err(|error| error.to_string())
}

/// Works until the store fails.
async fn client(store: &EmbeddedStore, clock: &ManualClock, name: &'static str, seed: u64) -> Acknowledged {
    let mut acked = Acknowledged { name, ..Acknowledged::default() };
    let mut rng = Rng::new(seed);
    for turn in 0.. {
        if acked.work(store, clock, &mut rng, turn).await.is_err() {
            break;
        }
    }
    acked
}

impl Acknowledged {
    async fn work(
        &mut self,
        store: &EmbeddedStore,
        clock: &ManualClock,
        rng: &mut Rng,
        turn: u64,
    ) -> Result<()> {
        let batch = format!("{}-{turn}", self.name);
        let task = || NewTask::new("t").queue(self.name).task_group_id(batch.clone());
        let enqueued = store.enqueue_batch((0..BATCH).map(|_| task()).collect()).await?;
        self.enqueued.extend(enqueued.into_iter().flatten().map(|enqueued| enqueued.key));
        let token = LeaseToken(u128::from(rng.next()));
        let request = LeaseRequest::new(Namespace::default(), queue(self.name), worker(self.name), token);
        let leased = store.lease(LeaseRequest { max: 2, slots: 2, ..request }).await?;
        self.leased.extend(leased.iter().cloned());
        for leased in leased {
            let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
            let transition = decide(&leased.record, command, clock.now()).expect("the lease is fresh");
            for answer in store.commit(vec![transition], None).await? {
                if let Committed::Applied { version } = answer {
                    self.ended.push((leased.lease.key.clone(), version));
                }
            }
        }
        let body = Bytes::from(batch);
        let version = store.put_document(&self.document_key(), body.clone(), Expect::Anything, None).await?;
        self.document = Some((version, body.clone()));
        self.appended = store.append_entries(&self.stream(), &[body.clone(), body]).await?;
        match store.changes(self.cursor, 1000).await? {
            Changes::Next { items, next } => {
                self.events.extend(items);
                self.cursor = Some(next);
            }
            Changes::Resync { next } => self.cursor = Some(next),
        }
        Ok(())
    }

    async fn check(&self, store: &EmbeddedStore, found: &Contents) -> Result<(), String> {
        let record = |key: &TaskKey| {
            let record = found.tasks.iter().find(|record| record.key == *key);
            record.ok_or_else(|| format!("{key} was acknowledged and is missing"))
        };
        self.enqueued.iter().try_for_each(|key| record(key).map(drop))?;
        for leased in &self.leased {
            let record = record(&leased.lease.key)?;
            let is_held = record.current_lease().is_some_and(|lease| lease == leased.lease);
            if !is_held && record.version <= leased.lease.version {
                return Err(format!("{:?} was granted, and the record is {record:?}", leased.lease));
            }
        }
        for (key, version) in &self.ended {
            let record = record(key)?;
            if record.version != *version || record.state != TaskState::Succeeded {
                return Err(format!("{key} had ended at version {version}, and is {record:?}"));
            }
        }
        for event in &self.events {
            let record = record(&event.key)?;
            if record.version < event.version {
                return Err(format!("{event:?} was published, and the record is {record:?}"));
            }
        }
        let stored = store.get_document(&self.document_key()).await.map_err(|error| error.to_string())?;
        if let Some((version, body)) = &self.document {
            let kept = stored.as_ref().is_some_and(|stored| {
                stored.version > *version || (stored.version == *version && stored.body == *body)
            });
            if !kept {
                return Err(format!("the document was at {version}, and is {stored:?}"));
            }
        }
        let page = store.read_entries(&self.stream(), ReadFrom::After(Seq(0)), 1000).await;
        let entries = page.map_err(|error| error.to_string())?.entries;
        if entries.len() % 2 != 0 || (entries.len() as u64) < self.appended.0 {
            return Err(format!("{:?} was appended, and {} entries are there", self.appended, entries.len()));
        }
        Ok(())
    }

    fn document_key(&self) -> DocumentKey {
        DocumentKey::new(Namespace::default(), KIND, self.name)
    }

    fn stream(&self) -> StreamKey {
        StreamKey::new(Namespace::default(), self.name)
    }
}
