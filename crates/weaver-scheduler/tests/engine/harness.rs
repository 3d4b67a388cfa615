//! The test harness: a store, a clock that the test advances, and shorthands.
//!
//! The clock is the nodes'. PostgreSQL's own is later, so that whatever is due for a node is due for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::LeaseRequest;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::ports::{Order, ReadFrom, Selector, Seq, Store, StreamKey, TaskQuery};
use weaver_core::queue::QueueExt;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::Timestamp;
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{
    DEFINITION_LABEL, Definition, DefinitionSpec, NOTICES_STREAM, Notice, TaskTemplate,
};
use weaver_scheduler::{Options, Scheduler};

use crate::stores::{Fresh, Place};

/// A test by its name.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Harness) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Lists the tests of a file.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn cases() -> Vec<$crate::harness::Case> {
            vec![$($crate::harness::Case {
                name: stringify!($name),
                run: |harness| Box::pin($name(harness)),
            }),*]
        }
    };
}
pub(crate) use cases;

pub(crate) struct Harness {
    pub(crate) place: Place,
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) scheduler: Scheduler,
    pub(crate) space: Namespace,
    fresh: Fresh,
}

/// How long after a crash another node finishes the decision.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

impl Harness {
    pub(crate) async fn open(place: Place) -> Self {
        let clock = ManualClock::default();
        let fresh = Fresh::new(place, &clock);
        let store = fresh.open(&clock).await;
        let scheduler = scheduler(Arc::clone(&store), Arc::new(clock.clone()), "first");
        Self { place, clock, store, scheduler, space: Namespace::default(), fresh }
    }

    /// The same store as another process opens it.
    pub(crate) async fn another_store(&self) -> Arc<dyn Store> {
        self.fresh.open(&self.clock).await
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Advances the clock, and ticks until nothing is due.
    pub(crate) async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        self.settle(&self.scheduler).await;
    }

    pub(crate) async fn settle(&self, scheduler: &Scheduler) {
        while scheduler.tick().await.expect("the store answers").more {}
    }

    pub(crate) async fn add(&self, name: &str, spec: DefinitionSpec) -> Definition {
        self.scheduler.add(&self.space, name, spec).await.expect("it is valid")
    }

    pub(crate) async fn get(&self, name: &str) -> Definition {
        self.scheduler.get(&self.space, name).await.expect("it is there")
    }

    /// The runs of a schedule, oldest first.
    pub(crate) async fn runs(&self, name: &str) -> Vec<TaskRecord> {
        let selector = Selector::Label(DEFINITION_LABEL.to_owned(), name.to_owned());
        let mut query = TaskQuery { limit: 1000, ..TaskQuery::new(self.space.clone()).select(selector) };
        query.order = Order::OldestFirst;
        let page = self.store.list_tasks(query).await.expect("the store answers");
        assert!(page.next.is_none(), "a test has fewer runs than a page");
        page.items
    }

    /// The planned instants of its runs, without the date.
    pub(crate) async fn instants(&self, name: &str) -> Vec<String> {
        let planned = |run: &TaskRecord| {
            let at = run.spec.origin().scheduled_for.map(|at| at.to_string()).unwrap_or_default();
            at.get(11..19).unwrap_or_default().to_owned()
        };
        let mut instants: Vec<String> = self.runs(name).await.iter().map(planned).collect();
        instants.sort();
        instants
    }

    /// The states of its runs, oldest first.
    pub(crate) async fn states(&self, name: &str) -> Vec<TaskState> {
        self.runs(name).await.iter().map(|run| run.state).collect()
    }

    /// Leases a run as a worker does, and leaves it running.
    pub(crate) async fn start_one(&self) -> weaver_core::lease::Leased {
        let mut token = [0; 16];
        getrandom::fill(&mut token).expect("there are random bytes");
        let worker = WorkerId::new("w").expect("a name");
        let token = LeaseToken(u128::from_le_bytes(token));
        let request = LeaseRequest::new(self.space.clone(), QueueName::default(), worker, token);
        self.store.dequeue_ready(request).await.expect("the store answers").expect("a run is due")
    }

    /// Leases a run as a worker does, and completes it.
    pub(crate) async fn finish_one(&self) -> TaskKey {
        let leased = self.start_one().await;
        self.store.mark_succeeded(&leased, None).await.expect("the lease is valid");
        leased.lease.key
    }

    pub(crate) async fn notices(&self) -> Vec<Notice> {
        let stream = StreamKey::new(self.space.clone(), NOTICES_STREAM);
        let page = self.store.read_entries(&stream, ReadFrom::After(Seq(0)), 1000).await;
        let entries = page.expect("the store answers").entries;
        entries.iter().map(|entry| serde_json::from_slice(&entry.body).expect("a notice")).collect()
    }
}

pub(crate) fn scheduler(store: Arc<dyn Store>, clock: Arc<dyn Clock>, node: &str) -> Scheduler {
    Scheduler::new(store, clock, Options { node: node.to_owned() })
}

pub(crate) fn every(span: &str) -> DefinitionSpec {
    DefinitionSpec::timed(ScheduleSpec::new(format!("every {span}")), TaskTemplate::new("t"))
}

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
