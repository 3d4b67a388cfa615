//! Runs a world from start to end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use weaver_core::clock::Clock;
use weaver_core::error::Error;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::TaskKey;
use weaver_core::ports::{Admin, Expect, Order, QueueSettings, Store, TaskQuery};
use weaver_core::queue::{Queue, QueueExt};
use weaver_core::task::TaskRecord;
use weaver_runtime::Shutdown;

use crate::faults::{FaultyStore, Seeded};
use crate::harness::{namespace, queue};
use crate::simulation::clock::SimClock;
use crate::simulation::history::{History, Recorder, What};
use crate::simulation::recorded_store::RecordedStore;
use crate::simulation::rng::Rng;
use crate::simulation::scenario::{Action, NAMESPACES, ProducerPlan, QUEUES, Scenario};
use crate::simulation::worker_life::{LifeFaults, WorkerLives};
use crate::simulation::zombie_worker::ZombieWorker;

/// Time after the last fault within which every task must finish: generous, because serial keys serialize
/// long tasks.
pub(super) const SETTLES_WITHIN: Duration = Duration::from_secs(3 * 3600);
/// Time limit of the final shutdown.
const STOPS_WITHIN: Duration = Duration::from_secs(120);
/// Poll interval for the end of the world.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Tries of a producer per task.
const TRIES_MAX: usize = 6;

/// Task keys by the numbers of their plans.
type Keys = Arc<Mutex<BTreeMap<usize, TaskKey>>>;

/// Runs a world to its end.
pub(super) async fn run(scenario: Scenario, clock: SimClock, store: Arc<dyn Store>) -> History {
    let scenario = Arc::new(scenario);
    let mut rng = Rng::new(scenario.seed ^ 0x5eed);
    let recorder = Recorder::new(clock);
    let line = |by: &str| Arc::new(RecordedStore::new(by, Arc::clone(&store), recorder.clone()));
    let reader = Reader::open(&store, &recorder).await;
    let shutdown = Shutdown::new();
    let mut zombie = ZombieWorker::new(
        scenario.zombie_percent,
        clock,
        rng.fork(),
        scenario.lease_ttl,
        scenario.faults_end,
    );
    let mut workers = JoinSet::new();
    for plan in scenario.workers.clone() {
        let (scenario, store, recorder) = (Arc::clone(&scenario), Arc::clone(&store), recorder.clone());
        let (rng, copies, shutdown) = (rng.fork(), zombie.copies(), shutdown.clone());
        let lives = WorkerLives { plan, scenario, clock, store, recorder, rng, copies, shutdown };
        workers.spawn(lives.run());
    }
    let keys = Keys::default();
    let mut others = JoinSet::new();
    for (index, plan) in scenario.producers.iter().enumerate() {
        let faults = LifeFaults {
            clock,
            seeded: Seeded::new(rng.bits(), plan.rates),
            stalls: Vec::new(),
            faults_end: scenario.faults_end,
            dies_before: None,
        };
        let inner = line(&format!("p{index}"));
        let faulty = FaultyStore::new(inner, Arc::new(clock), faults);
        others.spawn(produce(plan.clone(), clock, faulty, recorder.clone(), Arc::clone(&keys)));
    }
    others.spawn(zombie.run(line("zombie")));
    others.spawn(operate(Arc::clone(&scenario), clock, line("operator"), keys));
    while others.join_next().await.is_some() {}
    settle(&scenario, clock, &recorder).await;
    shutdown.request();
    stop(workers, clock, &recorder).await;
    reader.read(&store, &recorder).await;
    let finals = finals(&store).await;
    recorder.finish(Arc::unwrap_or_clone(scenario), finals)
}

/// Waits until every task is terminal and has no cancellation hold, or until the time limit.
async fn settle(scenario: &Scenario, clock: SimClock, recorder: &Recorder) {
    let deadline = scenario.faults_end + SETTLES_WITHIN;
    clock.until(scenario.faults_end).await;
    loop {
        let unfinished = recorder.unfinished();
        if unfinished.is_empty() {
            return;
        }
        if clock.elapsed() >= deadline {
            return recorder.write(What::Stranded(unfinished));
        }
        clock.pause(POLL_INTERVAL).await;
    }
}

async fn stop(mut workers: JoinSet<()>, clock: SimClock, recorder: &Recorder) {
    let all = async {
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                recorder.write(What::Hung(format!("a worker panicked: {error}")));
            }
        }
    };
    tokio::select! {
        biased;
        () = all => {}
        () = clock.pause(STOPS_WITHIN) => recorder.write(What::Hung("a worker".to_owned())),
    }
}

/// Enqueues as planned, with retries while the store is unavailable.
async fn produce(plan: ProducerPlan, clock: SimClock, store: FaultyStore, recorder: Recorder, keys: Keys) {
    for plan in plan.tasks {
        clock.until(plan.at).await;
        let task = plan.task(clock.now());
        for _ in 0..TRIES_MAX {
            match store.enqueue_batch(vec![task.clone()]).await {
                Ok(answers) => {
                    let answer = answers.into_iter().next().expect("one member, one answer");
                    let key = answer.expect("the task is stored").key;
                    recorder.write(What::Acknowledged(key.clone()));
                    keys.lock().insert(plan.number, key);
                    break;
                }
                Err(Error::Unavailable { .. }) => clock.pause(Duration::from_millis(200)).await,
                Err(error) => panic!("a planned task is refused: {error}"),
            }
        }
    }
}

/// Performs the operator's actions as planned; resumes paused queues when the faults end.
async fn operate(scenario: Arc<Scenario>, clock: SimClock, store: Arc<RecordedStore>, keys: Keys) {
    for (at, action) in &scenario.actions {
        clock.until(*at).await;
        let known = |number: &usize| keys.lock().get(number).cloned();
        let answer = match action {
            Action::Cancel(number) => match known(number) {
                Some(key) => store.cancel(&key).await,
                None => Ok(()),
            },
            Action::RunNow(number) => match known(number) {
                Some(key) => store.run_now(&key).await,
                None => Ok(()),
            },
            Action::Set { namespace: place, queue: name, paused, max_running } => {
                let settings =
                    QueueSettings { paused: *paused, max_running: *max_running, ..QueueSettings::default() };
                set(&store, place, name, settings).await;
                Ok(())
            }
        };
        // The task may be terminal, or in a state that does not allow it.
        assert!(matches!(answer, Ok(()) | Err(Error::Refused { .. })), "{action:?}: {answer:?}");
    }
    clock.until(scenario.faults_end).await;
    for (place, name) in NAMESPACES.iter().flat_map(|place| QUEUES.map(|name| (place, name))) {
        let queues = store.list_queues(&namespace(place)).await.expect("the store answers");
        let found = queues.into_iter().find(|info| info.name == queue(name));
        if let Some(info) = found.filter(|info| info.settings.paused) {
            set(&store, place, name, QueueSettings { paused: false, ..info.settings }).await;
        }
    }
}

async fn set(store: &RecordedStore, place: &str, name: &str, settings: QueueSettings) {
    let answer = store.put_queue(&namespace(place), &queue(name), settings, Expect::Anything).await;
    answer.expect("the settings are valid");
}

/// Reads the change stream from the start of the world.
struct Reader(ChangeCursor);

impl Reader {
    async fn open(store: &Arc<dyn Store>, recorder: &Recorder) -> Self {
        match store.changes(None, 1).await.expect("the store answers") {
            Changes::Next { next, .. } => Self(next),
            Changes::Resync { next } => {
                recorder.write(What::Resync);
                Self(next)
            }
        }
    }

    async fn read(self, store: &Arc<dyn Store>, recorder: &Recorder) {
        let mut cursor = self.0;
        loop {
            match store.changes(Some(cursor), 7).await.expect("the store answers") {
                Changes::Next { items, .. } if items.is_empty() => return,
                Changes::Next { items, next } => {
                    items.into_iter().for_each(|change| recorder.write(What::Published(change)));
                    cursor = next;
                }
                Changes::Resync { .. } => return recorder.write(What::Resync),
            }
        }
    }
}

/// All records, namespace by namespace.
async fn finals(store: &Arc<dyn Store>) -> Vec<TaskRecord> {
    let mut records = Vec::new();
    for name in NAMESPACES {
        let query = TaskQuery { limit: 1000, order: Order::OldestFirst, ..TaskQuery::new(namespace(name)) };
        let page = store.list_tasks(query).await.expect("the store answers");
        assert!(page.next.is_none(), "a world has fewer tasks than a page");
        records.extend(page.items);
    }
    records
}
