//! The integrity proof: two leaders (split brain) and a partitioned worker, in every order that a bounded
//! script allows. There are never two running owners, and an end is never overwritten.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use support::Schema;
use weaver_core::clock::Clock;
use weaver_core::id::{Epoch, LeaseToken, TaskKey, Version};
use weaver_core::lease::Lease;
use weaver_core::lifecycle::{Command, Grant, OrphanCause, decide};
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{DocumentKey, Documents, Expect, Tasks};
use weaver_core::queue::{LeaderEpoch, Queue};
use weaver_core::task::{NewTask, TaskRecord, TaskState};
use weaver_postgres::PostgresStore;
use weaver_testkit::sample::sample;

/// The next step of a leader or worker. Each acts on what it last read, which may be stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A leader reads the run.
    Read(usize),
    /// A leader assigns it to its worker, by what it read.
    Assign(usize),
    /// A leader declares it orphaned, by what it read.
    Orphan(usize),
    /// A worker starts it, by what it reads now.
    Start(usize),
    /// A worker ends it, under the lease it has.
    End(usize),
}

/// The steps of each leader and of both workers, in order; every interleaving is tried.
const SCRIPT: [&[Step]; 3] = [
    // The old leader, which does not know that it was deposed.
    &[Step::Read(0), Step::Assign(0), Step::Orphan(0)],
    // The new one.
    &[Step::Read(1), Step::Assign(1)],
    // Both workers: the first is partitioned between its start and its end.
    &[Step::Start(0), Step::Start(1), Step::End(0), Step::End(1)],
];

/// Interleavings that a CI run samples.
const SAMPLE: usize = 320;

struct World {
    store: PostgresStore,
    key: TaskKey,
    terms: [LeaderEpoch; 2],
    read: [Option<TaskRecord>; 2],
    leases: [Option<(Lease, TaskRecord)>; 2],
    ends: Vec<(usize, Version)>,
}

fn worker(number: usize) -> WorkerId {
    WorkerId::new(["first", "second"][number]).expect("a name")
}

impl World {
    async fn record(&self) -> TaskRecord {
        let found = self.store.get_tasks(std::slice::from_ref(&self.key)).await.expect("the store answers");
        found.into_iter().next().flatten().expect("it is there")
    }

    async fn take(&mut self, step: Step) {
        let now = weaver_runtime::SystemClock::new().now();
        match step {
            Step::Read(leader) => self.read[leader] = Some(self.record().await),
            Step::Assign(leader) => {
                let epoch = Epoch(self.terms[leader].epoch.0);
                self.lead(leader, Command::Assign { worker: worker(leader), epoch }).await;
            }
            Step::Orphan(leader) => self.lead(leader, Command::Orphan(OrphanCause::Silent)).await,
            Step::Start(number) => {
                let token = LeaseToken(7 + number as u128);
                let ttl = std::time::Duration::from_secs(30);
                let command = Command::Start(Grant { worker: worker(number), token, ttl });
                let Ok(transition) = decide(&self.record().await, command, now) else { return };
                let _ = self.store.commit(vec![transition], None).await.expect("the store answers");
                let after = self.record().await;
                if let Some(lease) = after.current_lease().filter(|lease| lease.worker == worker(number)) {
                    self.leases[number] = Some((lease, after));
                }
            }
            Step::End(number) => {
                let Some((lease, record)) = self.leases[number].clone() else { return };
                let command = Command::Finish { lease, outcome: Outcome::DONE };
                let Ok(transition) = decide(&record, command, now) else { return };
                let answers = self.store.commit(vec![transition], None).await.expect("the store answers");
                if let weaver_core::queue::Committed::Applied { version } = answers[0] {
                    self.ends.push((number, version));
                }
            }
        }
    }

    /// A leader's transition on what it read; it may have been deposed since.
    async fn lead(&mut self, leader: usize, command: Command) {
        let Some(read) = self.read[leader].clone() else { return };
        let now = weaver_runtime::SystemClock::new().now();
        let Ok(transition) = decide(&read, command, now) else { return };
        // Deposed or stale: in both cases nothing was written.
        let _ = self.store.commit(vec![transition], Some(self.terms[leader].clone())).await;
        self.read[leader] = Some(self.record().await);
    }

    /// Checks that there are never two running owners, and that an ended task does not change.
    async fn check(&self, ended: &mut Option<TaskRecord>, order: &[Step]) {
        let record = self.record().await;
        if record.state == TaskState::Running {
            let held = record.lease.as_ref().expect("what runs has a lease");
            let given = record.assignment.as_ref().expect("it was assigned");
            assert_eq!(held.worker, given.worker, "{order:?}");
            assert_eq!(held.epoch, given.epoch, "{order:?}");
        }
        if let Some(before) = ended {
            assert_eq!(*before, record, "an end was overwritten: {order:?}");
        }
        if record.state.is_terminal() {
            *ended = Some(record);
        }
        assert!(self.ends.len() <= 1, "two ends were accepted: {:?} in {order:?}", self.ends);
    }
}

/// Every interleaving of the script's lines.
fn orders() -> Vec<Vec<Step>> {
    fn weave(left: [usize; SCRIPT.len()], so_far: &mut Vec<Step>, all: &mut Vec<Vec<Step>>) {
        if left == SCRIPT.map(<[Step]>::len) {
            all.push(so_far.clone());
        }
        for (line, steps) in SCRIPT.iter().enumerate() {
            if left[line] < steps.len() {
                let mut next = left;
                next[line] += 1;
                so_far.push(steps[left[line]]);
                weave(next, so_far, all);
                so_far.pop();
            }
        }
    }
    let mut all = Vec::new();
    weave([0; SCRIPT.len()], &mut Vec::new(), &mut all);
    all
}

#[tokio::test]
async fn two_leaders_and_a_partitioned_worker_never_cause_two_owners_or_two_ends() {
    let schema = Schema::new();
    let clock = Arc::new(weaver_runtime::SystemClock::new());
    let mut store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
    let document = DocumentKey::new(Namespace::default(), "leader", "scheduler");
    let orders = orders();
    assert_eq!(orders.len(), 1260, "9 steps of 3, 2 and 4");
    let chosen = sample("orders of leaders and workers", orders.len(), SAMPLE);
    let mut ended = 0;
    for order in chosen.iter().map(|index| &orders[*index]) {
        let mut terms = Vec::new();
        for name in ["old", "new"] {
            let put =
                store.put_document(&document, Bytes::from_static(name.as_bytes()), Expect::Anything, None);
            let epoch = put.await.expect("the store answers");
            terms.push(LeaderEpoch { document: document.clone(), epoch });
        }
        let terms: [LeaderEpoch; 2] = terms.try_into().expect("two terms");
        let enqueued = store.enqueue_batch(vec![NewTask::new("t").max_losses(9)]).await.expect("it answers");
        let key = enqueued[0].as_ref().expect("it is stored").key.clone();
        let mut world =
            World { store, key, terms, read: [None, None], leases: [None, None], ends: Vec::new() };
        let mut end = None;
        for step in order {
            world.take(*step).await;
            world.check(&mut end, order).await;
        }
        ended += usize::from(end.is_some());
        store = world.store;
    }
    assert!(ended > SAMPLE / 13, "the script must let runs come to an end, not only {ended}");
    schema.drop(store.pool()).await;
}
