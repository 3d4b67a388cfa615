//! The life of a store whose power is cut again and again, beside a twin whose power never is.
//!
//! Every call is made on the store first. If it answers, the twin must answer the same. If it does not,
//! because the power went, the store must afterwards show either exactly what the twin shows, or exactly what
//! the twin shows once the call is made on it as well: wholly there or wholly absent.

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
use crate::support::look::Look;
use crate::support::power::PowerMedium;
use crate::support::ram::RamMedium;
use crate::support::rng::Rng;

/// How a life goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) cuts: u32,
    /// Whether the disk only says that it syncs.
    pub(crate) disk_lies: bool,
}

pub(crate) struct Life {
    rng: Rng,
    clock: ManualClock,
    disk: PowerMedium,
    store: EmbeddedStore,
    twin: EmbeddedStore,
    leases: Vec<Leased>,
    /// What the twin showed a while ago: calls may be about things that have moved on.
    look: Look,
    /// The place in the store's stream of changes, and everything that was read from it.
    cursor: Option<ChangeCursor>,
    events: Vec<Change>,
    plan: Plan,
}

/// Lives a life; says how many cuts there were, or what was broken.
pub(crate) async fn live(seed: u64, plan: Plan) -> Result<u32, String> {
    let mut life = Life::begin(seed, plan)?;
    let mut cuts = 0;
    while cuts < plan.cuts {
        life.plan_trouble();
        let mut unanswered = None;
        // A bound: with little left to write, the power might never go.
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
        // A power cut while a store is made is a matter of the directory, and tested there.
        let made = RamMedium::new();
        drop(open(Arc::new(made.clone()), &clock)?);
        let disk = PowerMedium::with(made.bytes(), rng.next());
        let store = open(Arc::new(disk.clone()), &clock)?;
        let twin = open(Arc::new(RamMedium::new()), &clock)?;
        let (leases, look, events) = (Vec::new(), Look::default(), Vec::new());
        let mut life = Self { rng, clock, disk, store, twin, leases, look, cursor: None, events, plan };
        life.settle_disk();
        Ok(life)
    }

    fn plan_trouble(&mut self) {
        self.disk.cut_after(self.rng.below(250));
        if self.rng.percent(25) {
            self.disk.fail_sync_after(self.rng.below(20));
        }
    }

    /// Makes a call; returns it if the power went before it was answered.
    async fn call(&mut self) -> Result<Option<Call>, String> {
        if self.rng.percent(20) {
            self.clock.advance(seconds(self.rng.below(40)));
        }
        if self.rng.percent(15) {
            self.look = self.look_at_twin().await?;
        }
        let mut chooser = Chooser {
            rng: &mut self.rng,
            clock: &self.clock,
            leases: &self.leases,
            records: &self.look.tasks,
        };
        let call = chooser.choose();
        let answer = call.make(&self.store).await;
        if let Err(Error::Unavailable { .. }) = answer {
            if self.disk_is_off() {
                return Ok(Some(call));
            }
            // A sync failed, and the store was opened again: nothing is lost then either.
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

    /// Cuts the power and starts again; now and then the power goes while starting as well.
    fn cut(&mut self) -> Result<(), String> {
        let mut image = self.disk.cut();
        while self.rng.percent(30) {
            let disk = PowerMedium::with(image, self.rng.next());
            disk.cut_after(self.rng.below(30));
            // Whether it gets as far as being open does not matter.
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

    /// Holds the store to its twin, with the unanswered call made or not.
    async fn compare(&mut self, unanswered: Option<&Call>) -> Result<(), String> {
        let namespace = Namespace::default();
        let read = |error: Error| format!("reading failed: {error}");
        let found = Look::at(&self.store, &namespace).await.map_err(read)?;
        found.agree(&self.store, &namespace).await?;
        self.check_events(&found)?;
        let report = self.store.check().map_err(|error| error.to_string())?;
        if !report.is_clean() {
            return Err(format!("a check found {:?}", report.problems));
        }
        let without = self.look_at_twin().await?;
        if found == without {
            return Ok(());
        }
        if let Some(call) = unanswered
            && let Ok(answer) = call.make(&self.twin).await
        {
            if let Answer::Leased(leased) = answer {
                self.leases.extend(leased);
            }
            if found == self.look_at_twin().await? {
                return Ok(());
            }
        }
        Err(difference(&found, &without))
    }

    /// Everything that was published is true: no version went back, and what had ended has still ended.
    fn check_events(&self, found: &Look) -> Result<(), String> {
        for event in &self.events {
            let Some(record) = found.tasks.iter().find(|record| record.key == event.key) else {
                // Purged: that it may be is held against the twin.
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

    async fn look_at_twin(&self) -> Result<Look, String> {
        Look::at(&self.twin, &Namespace::default()).await.map_err(|error| error.to_string())
    }
}

fn open(medium: Arc<dyn weaver_embedded::Medium>, clock: &ManualClock) -> Result<EmbeddedStore, String> {
    let clock = Arc::new(clock.clone());
    EmbeddedStore::open_on(medium, clock, EmbeddedOptions::default(), false)
        .map_err(|error| error.to_string())
}

/// What differs, without drowning the reader in all that does not.
fn difference(found: &Look, wanted: &Look) -> String {
    let mut parts = Vec::new();
    for record in &wanted.tasks {
        match found.tasks.iter().find(|other| other.key == record.key) {
            None => parts.push(format!("task {} is gone: {record:?}", record.key.id)),
            Some(other) if other != record => {
                parts.push(format!("task {} is\n  {other:?}\nand should be\n  {record:?}", record.key.id));
            }
            Some(_) => {}
        }
    }
    if found.tasks.len() > wanted.tasks.len() {
        parts.push(format!("{} tasks nobody knows", found.tasks.len() - wanted.tasks.len()));
    }
    if found.documents != wanted.documents {
        parts.push(format!("documents {:?}\nand should be {:?}", found.documents, wanted.documents));
    }
    let lengths = |look: &Look| look.streams.iter().map(Vec::len).collect::<Vec<_>>();
    if found.streams != wanted.streams {
        parts.push(format!("streams of {:?} entries, not {:?}", lengths(found), lengths(wanted)));
    }
    if parts.is_empty() {
        parts.push(format!("counts, groups, queues or runners:\n{found:?}\nand should be\n{wanted:?}"));
    }
    parts.join("\n")
}
