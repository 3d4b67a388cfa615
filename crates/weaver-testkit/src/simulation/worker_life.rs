//! The processes of one worker: it runs, crashes or shuts down as planned, and restarts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::id::LeaseToken;
use weaver_core::ports::Store;
use weaver_runtime::{LocalSource, Registry, Shutdown, Worker};

use crate::faults::{CallSite, Fault, FaultyStore, Plan, Seeded, SkewedClock};
use crate::simulation::clock::SimClock;
use crate::simulation::handler::SimHandler;
use crate::simulation::history::{Recorder, What};
use crate::simulation::recorded_store::{Death, RecordedStore};
use crate::simulation::rng::Rng;
use crate::simulation::scenario::{LifeEnd, QUEUES, Scenario, WorkerPlan};
use crate::simulation::zombie_worker::Copies;

/// Longer than every world.
const NEVER_ENDING: Duration = Duration::from_secs(100 * 24 * 3600);

/// Kills one life of a worker.
#[derive(Debug, Clone)]
pub(super) struct KillSwitch {
    /// None for the last life: one worker must remain at the end.
    pulled: Option<Arc<Notify>>,
}

impl KillSwitch {
    /// Kills the worker at once; `false` if it cannot be killed.
    pub(super) fn pull(&self) -> bool {
        self.pulled.iter().for_each(|pulled| pulled.notify_one());
        self.pulled.is_some()
    }

    async fn pulled(&self) {
        match &self.pulled {
            Some(pulled) => pulled.notified().await,
            None => std::future::pending().await,
        }
    }
}

/// Fault plan of the calls of one life.
pub(super) struct LifeFaults {
    pub(super) clock: SimClock,
    pub(super) seeded: Seeded,
    pub(super) stalls: Vec<(Duration, Duration)>,
    pub(super) faults_end: Duration,
    pub(super) dies_before: Option<Death>,
}

impl Plan for LifeFaults {
    fn fault(&self, site: &CallSite) -> Fault {
        let is_site = |death: &&Death| (death.method, death.number) == (site.method, site.number);
        if let Some(death) = self.dies_before.as_ref().filter(is_site)
            && death.switch.pull()
        {
            return Fault::Delay(NEVER_ENDING);
        }
        let now = self.clock.elapsed();
        let drawn = self.seeded.fault(site);
        if now >= self.faults_end {
            return Fault::None;
        }
        match self.stalls.iter().find(|(from, until)| (*from..*until).contains(&now)) {
            Some((_, until)) => Fault::Delay(*until - now),
            None => drawn,
        }
    }
}

/// A worker with its plan and its world.
pub(super) struct WorkerLives {
    pub(super) plan: WorkerPlan,
    pub(super) scenario: Arc<Scenario>,
    pub(super) clock: SimClock,
    pub(super) store: Arc<dyn Store>,
    pub(super) recorder: Recorder,
    pub(super) rng: Rng,
    pub(super) copies: Arc<dyn Fn() -> Copies + Send + Sync>,
    /// Shutdown of the whole world.
    pub(super) shutdown: Shutdown,
}

impl WorkerLives {
    /// Runs all lives in turn.
    pub(super) async fn run(mut self) {
        for (index, life) in self.plan.lives.clone().into_iter().enumerate() {
            let number = u32::try_from(index + 1).expect("few lives");
            self.clock.pause(life.after).await;
            if self.shutdown.is_requested() {
                return;
            }
            self.live(number, life.end).await;
        }
    }

    async fn live(&mut self, life: u32, end: LifeEnd) {
        let pulled = (end != LifeEnd::Never).then(Arc::default);
        let switch = KillSwitch { pulled };
        let worker = self.worker(life, end, &switch);
        let name = self.plan.name.clone();
        self.recorder.write(What::Alive(name.clone(), life));
        let shutdown = if end == LifeEnd::Never { self.shutdown.clone() } else { Shutdown::new() };
        let crash_after = match end {
            LifeEnd::CrashAfter(span) => span,
            LifeEnd::Never => NEVER_ENDING,
            // If its planned call never happens, it crashes when faults end.
            _ => self.scenario.faults_end.saturating_sub(self.clock.elapsed()),
        };
        let crashed = tokio::select! {
            biased;
            () = switch.pulled() => true,
            () = self.clock.pause(crash_after) => true,
            () = self.request_stop(life, end, &shutdown) => true,
            _ = worker.run(shutdown.clone()) => false,
        };
        let what = if crashed { What::Crashed(name, life) } else { What::Returned(name, life) };
        self.recorder.write(what);
    }

    /// Requests shutdown as planned; never returns.
    async fn request_stop(&self, life: u32, end: LifeEnd, shutdown: &Shutdown) {
        if let LifeEnd::ShutdownAfter(first, second) = end {
            self.clock.pause(first).await;
            self.recorder.write(What::ShutdownRequested(self.plan.name.clone(), life));
            shutdown.request();
            if let Some(second) = second {
                self.clock.pause(second).await;
                shutdown.request();
            }
        }
        std::future::pending::<()>().await;
    }

    fn worker(&mut self, life: u32, end: LifeEnd, switch: &KillSwitch) -> Worker {
        let plan = &self.plan;
        let death = |after: bool| match end {
            LifeEnd::CrashAtCall { method, number, carried_out } if carried_out == after => {
                Some(Death { method, number, switch: switch.clone() })
            }
            _ => None,
        };
        let line = RecordedStore::new(&plan.name, Arc::clone(&self.store), self.recorder.clone());
        let line = line.with_faults(death(true), (self.copies)());
        let faults = LifeFaults {
            clock: self.clock,
            seeded: Seeded::new(self.rng.bits(), plan.rates),
            stalls: plan.stalls.clone(),
            faults_end: self.scenario.faults_end,
            dies_before: death(false),
        };
        let store = FaultyStore::new(Arc::new(line), Arc::new(self.clock), faults);
        let clock: Arc<dyn Clock> =
            Arc::new(SkewedClock::new(Arc::new(self.clock), plan.skew_us).drifting(plan.drift_ppm));
        let handler = SimHandler {
            task_type: SimHandler::task_type(),
            clock: self.clock,
            recorder: self.recorder.clone(),
            worker: plan.name.clone(),
            life,
            switch: switch.clone(),
        };
        let dice = Mutex::new(self.rng.fork());
        let tokens = move || {
            let mut dice = dice.lock();
            LeaseToken(u128::from(dice.bits()) << 64 | u128::from(dice.bits()))
        };
        Worker::builder(Arc::new(LocalSource::new(Arc::new(store))), clock)
            .name(plan.name.clone())
            .namespaces(plan.namespaces.iter().copied())
            .queues(QUEUES)
            .registry(Registry::new().handler(handler))
            .concurrency(plan.concurrency)
            .lease_ttl(self.scenario.lease_ttl)
            .grace(self.scenario.grace)
            .tokens(Arc::new(tokens))
            .build()
            .expect("the plan is a valid worker")
    }
}
