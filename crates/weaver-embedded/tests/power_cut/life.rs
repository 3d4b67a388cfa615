//! The life of a store whose power is cut repeatedly, compared with a twin whose power is not.
//!
//! Every call is made on the store first. If it is answered, the twin must answer the same.
//!
//! If it is not answered because of the cut, the call is atomic: the store afterwards shows exactly what the
//! twin shows, either without the call or with it.

use std::sync::Arc;

use weaver_core::clock::ManualClock;
use weaver_core::error::Error;
use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::lease::Leased;
use weaver_core::name::Namespace;
use weaver_core::queue::Queue;
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};
use weaver_testkit::harness::seconds;

use crate::calls::{Answer, Call, Chooser};
use crate::support::contents::Contents;
use crate::support::power::PowerMedium;
use crate::support::ram::RamMedium;
use crate::support::rng::Rng;

/// Parameters of a life.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) cuts: u32,
    /// Whether the disk acknowledges fsyncs without doing them.
    pub(crate) disk_lies: bool,
}

pub(crate) struct Life {
    rng: Rng,
    clock: ManualClock,
    disk: PowerMedium,
    store: EmbeddedStore,
    twin: EmbeddedStore,
    leases: Vec<Leased>,
    /// The twin's contents a while ago: calls may be based on stale records.
    contents: Contents,
    /// The place in the store's stream of changes, and everything that was read from it.
    cursor: Option<ChangeCursor>,
    events: Vec<Change>,
    plan: Plan,
}

/// Runs a life; returns the number of cuts, or the first violation.
pub(crate) async fn live(seed: u64, plan: Plan) -> Result<u32, String> {
    let mut life = Life::begin(seed, plan)?;
    let mut cuts = 0;
    while cuts < plan.cuts {
        life.plan_faults();
        let mut unanswered = None;
        // A bound: with little left to write, the cut might never happen.
        for _ in 0..200 {
            unanswered = life.call().await?;
            if unanswered.is_some() {
                break;
            }
        }
        cuts += 1;
        life.cut().map_err(|error| format!("cut {cuts}: {error}"))?;
        let at = |error| format!("cut {cuts}, unanswered {unanswered:?}: {error}");
        life.compare(unanswered.as_ref()).await.map_err(at)?;
    }
    Ok(cuts)
}

impl Life {
    fn begin(seed: u64, plan: Plan) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let clock = ManualClock::default();
        // Power cuts during creation are covered by the tests of the directory.
        let made = RamMedium::new();
        drop(open(Arc::new(made.clone()), &clock)?);
        let disk = PowerMedium::with(made.bytes(), rng.next());
        let store = open(Arc::new(disk.clone()), &clock)?;
        let twin = open(Arc::new(RamMedium::new()), &clock)?;
        let (leases, contents, events) = (Vec::new(), Contents::default(), Vec::new());
        let mut life = Self { rng, clock, disk, store, twin, leases, contents, cursor: None, events, plan };
        life.settle_disk();
        Ok(life)
    }

    fn plan_faults(&mut self) {
        self.disk.cut_after(self.rng.below(250));
        if self.rng.percent(25) {
            self.disk.fail_sync_after(self.rng.below(20));
        }
    }

    /// Makes a call; returns it if the power was cut before it was answered.
    async fn call(&mut self) -> Result<Option<Call>, String> {
        if self.rng.percent(20) {
            self.clock.advance(seconds(self.rng.below(40)));
        }
        if self.rng.percent(15) {
            self.contents = self.read_twin().await?;
        }
        let mut chooser = Chooser {
            rng: &mut self.rng,
            clock: &self.clock,
            leases: &self.leases,
            records: &self.contents.tasks,
        };
        let call = chooser.choose();
        let answer = call.make(&self.store).await;
        if let Err(Error::Unavailable { .. }) = answer {
            if self.disk_is_off() {
                return Ok(Some(call));
            }
            // An fsync failed and the store was reopened: nothing is lost then either.
            self.compare(Some(&call)).await.map_err(|error| format!("after {call:?} failed: {error}"))?;
            return Ok(None);
        }
        let twin_answer = call.make(&self.twin).await;
        if answer != twin_answer {
            return Err(format!("{call:?}\nanswered {answer:?}\nand should have {twin_answer:?}"));
        }
        if let Ok(Answer::Leased(leased)) = answer {
            self.leases.extend(leased);
        }
        self.read_events().await
    }

    async fn read_events(&mut self) -> Result<Option<Call>, String> {
        match self.store.changes(self.cursor, 1000).await.map_err(|error| error.to_string())? {
            Changes::Next { items, next } => {
                self.events.extend(items);
                self.cursor = Some(next);
            }
            Changes::Resync { next } => self.cursor = Some(next),
        }
        Ok(None)
    }

    /// Cuts the power and restarts; sometimes the power is cut during the restart as well.
    fn cut(&mut self) -> Result<(), String> {
        let mut image = self.disk.cut();
        while self.rng.percent(30) {
            let disk = PowerMedium::with(image, self.rng.next());
            disk.cut_after(self.rng.below(30));
            // Whether opening succeeds does not matter.
            drop(EmbeddedStore::open_on(
                Arc::new(disk.clone()),
                Arc::new(self.clock.clone()),
                EmbeddedOptions::default(),
                false,
            ));
            image = disk.cut();
        }
        self.disk = PowerMedium::with(image, self.rng.next());
        self.settle_disk();
        self.store = open(Arc::new(self.disk.clone()), &self.clock)?;
        self.cursor = None;
        Ok(())
    }

    fn settle_disk(&mut self) {
        if self.plan.disk_lies {
            self.disk.lie();
        }
    }

    fn disk_is_off(&self) -> bool {
        weaver_embedded::Medium::open(&self.disk).is_err()
    }

    /// Compares the store with its twin, with the unanswered call applied or not.
    async fn compare(&mut self, unanswered: Option<&Call>) -> Result<(), String> {
        let namespace = Namespace::default();
        let read = |error: Error| format!("reading failed: {error}");
        let found = Contents::read(&self.store, &namespace).await.map_err(read)?;
        found.agree(&self.store, &namespace).await?;
        self.check_events(&found)?;
        let report = self.store.check().map_err(|error| error.to_string())?;
        if !report.is_clean() {
            return Err(format!("a check found {:?}", report.problems));
        }
        let without = self.read_twin().await?;
        if found == without {
            return Ok(());
        }
        if let Some(call) = unanswered
            && let Ok(answer) = call.make(&self.twin).await
        {
            if let Answer::Leased(leased) = answer {
                self.leases.extend(leased);
            }
            if found == self.read_twin().await? {
                return Ok(());
            }
        }
        Err(difference(&found, &without))
    }

    /// Checks every published change: no version went back, and finished tasks are still finished.
    fn check_events(&self, found: &Contents) -> Result<(), String> {
        for event in &self.events {
            let Some(record) = found.tasks.iter().find(|record| record.key == event.key) else {
                // Purged: the comparison with the twin checks that.
                continue;
            };
            let is_true = if event.state.is_terminal() {
                record.version == event.version && record.state == event.state
            } else {
                record.version > event.version
                    || (record.version == event.version && record.state == event.state)
            };
            if !is_true {
                return Err(format!("{event:?} was published, and the record is {record:?}"));
            }
        }
        Ok(())
    }

    async fn read_twin(&self) -> Result<Contents, String> {
        Contents::read(&self.twin, &Namespace::default()).await.map_err(|error| error.to_string())
    }
}

fn open(medium: Arc<dyn weaver_embedded::Medium>, clock: &ManualClock) -> Result<EmbeddedStore, String> {
    let clock = Arc::new(clock.clone());
    EmbeddedStore::open_on(medium, clock, EmbeddedOptions::default(), false)
        .map_err(|error| error.to_string())
}

/// Describes only what differs.
fn difference(found: &Contents, wanted: &Contents) -> String {
    let mut parts = Vec::new();
    for record in &wanted.tasks {
        match found.tasks.iter().find(|other| other.key == record.key) {
            None => parts.push(format!("task {} is missing: {record:?}", record.key.id)),
            Some(other) if other != record => {
                parts.push(format!("task {} is\n  {other:?}\nand should be\n  {record:?}", record.key.id));
            }
            Some(_) => {}
        }
    }
    if found.tasks.len() > wanted.tasks.len() {
        parts.push(format!("{} unknown tasks", found.tasks.len() - wanted.tasks.len()));
    }
    if found.documents != wanted.documents {
        parts.push(format!("documents {:?}\nand should be {:?}", found.documents, wanted.documents));
    }
    let lengths = |contents: &Contents| contents.streams.iter().map(Vec::len).collect::<Vec<_>>();
    if found.streams != wanted.streams {
        parts.push(format!("streams of {:?} entries, not {:?}", lengths(found), lengths(wanted)));
    }
    if parts.is_empty() {
        parts.push(format!("counts, groups, queues or runners:\n{found:?}\nand should be\n{wanted:?}"));
    }
    parts.join("\n")
}
