//! Common steps of the tests, as methods of the [`Harness`].

use weaver_core::id::TaskKey;
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{Command, OverdueReason, Transition, decide};
use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Expect, QueueSettings, Scope};
use weaver_core::queue::Committed;
use weaver_core::task::NewTask;

use crate::harness::{Harness, namespace, queue, seconds, worker};

impl Harness {
    /// Enqueues several new tasks, in one batch if the store's limit allows it.
    pub async fn enqueue_all(&self, tasks: Vec<NewTask>) -> Vec<TaskKey> {
        let mut answers = Vec::with_capacity(tasks.len());
        for some in tasks.chunks(self.store.limits().max_batch) {
            answers.extend(self.store.enqueue_batch(some.to_vec()).await.expect("the tasks are valid"));
        }
        let stored = answers.into_iter().map(|answer| answer.expect("the task is stored"));
        stored
            .map(|enqueued| {
                assert!(!enqueued.existing, "{} was there before", enqueued.key);
                enqueued.key
            })
            .collect()
    }

    /// A request by worker `w` for these queues of a namespace.
    pub fn request_in(&self, space: &str, queues: &[&str], max: u32) -> LeaseRequest {
        let queues = queues.iter().map(|name| queue(name)).collect();
        LeaseRequest { namespace: namespace(space), queues, ..self.request(max) }
    }

    /// Leases from these queues of a namespace, as worker `w`.
    pub async fn lease_in(&self, space: &str, queues: &[&str], max: u32) -> Vec<Leased> {
        self.lease_as(self.request_in(space, queues, max)).await
    }

    /// Leases from queue `default` as another worker.
    pub async fn lease_by(&self, name: &str, max: u32) -> Vec<Leased> {
        self.lease_as(LeaseRequest { worker: worker(name), ..self.request(max) }).await
    }

    /// Commits one transition without a leader epoch.
    pub async fn commit_one(&self, transition: Transition) -> Committed {
        let mut answers = self.store.commit(vec![transition], None).await.expect("the store answers");
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Reports an outcome; the store must apply it.
    pub async fn end(&self, leased: &Leased, outcome: Outcome) {
        expect_applied(&self.finish(leased, outcome).await);
    }

    /// Decides and commits a command; the store must apply it.
    pub async fn apply(&self, key: &TaskKey, command: Command) {
        expect_applied(&self.command(key, command).await);
    }

    /// Cancels a task as a user does.
    pub async fn cancel(&self, key: &TaskKey) {
        self.apply(key, Command::Cancel).await;
    }

    /// Renews a lease without progress.
    pub async fn renew(&self, lease: &Lease) -> Renewed {
        self.renew_with(Renewal::of(lease.clone())).await
    }

    /// Renews a lease as the renewal says.
    pub async fn renew_with(&self, renewal: Renewal) -> Renewed {
        let mut answers = self.store.renew(vec![renewal]).await.expect("the store answers");
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Confirms that a cancelled handler has stopped.
    pub async fn confirm(&self, lease: &Lease) {
        self.store.confirm_stopped(vec![lease.clone()]).await.expect("the store answers");
    }

    /// Lets the lease of the only running task expire, and records the expiry.
    pub async fn lose(&self) {
        self.advance(seconds(31)).await;
        assert_eq!(self.maintain().await, 1, "one lease should have run out");
    }

    /// Overdue tasks with their reasons.
    pub async fn overdue(&self) -> Vec<(TaskKey, OverdueReason)> {
        let overdue = self.store.overdue(1000).await.expect("the store answers");
        overdue.into_iter().map(|item| (item.record.key, item.reason)).collect()
    }

    /// Sets a queue of namespace `default` unconditionally.
    pub async fn set_queue(&self, name: &str, settings: QueueSettings) {
        let (space, name) = (Namespace::default(), queue(name));
        let put = self.store.put_queue(&space, &name, settings, Expect::Anything);
        put.await.expect("the settings are valid");
    }

    /// Pauses a queue of namespace `default`.
    pub async fn pause(&self, name: &str) {
        self.set_queue(name, QueueSettings { paused: true, ..QueueSettings::default() }).await;
    }

    /// Resets a queue of namespace `default` to the default settings.
    pub async fn reset_queue(&self, name: &str) {
        self.set_queue(name, QueueSettings::default()).await;
    }

    /// Sets the concurrency limit of a queue of namespace `default`.
    pub async fn limit(&self, name: &str, max_running: u32) {
        let settings = QueueSettings { max_running: Some(max_running), ..QueueSettings::default() };
        self.set_queue(name, settings).await;
    }

    /// Number of tasks in a namespace.
    pub async fn total(&self, space: &str) -> u64 {
        let counts = self.store.counts(Scope::Namespace(namespace(space))).await.expect("the store answers");
        counts.values.total()
    }

    /// Decides a command on the current record, without committing it.
    pub async fn decided(&self, key: &TaskKey, command: Command) -> Transition {
        let record = self.record(key).await;
        decide(&record, command, self.now().await).expect("the command is allowed")
    }
}

/// The transition must have been stored.
#[track_caller]
pub fn expect_applied(answer: &Committed) {
    assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");
}

/// Keys of the leased tasks, in order.
pub fn keys(leased: &[Leased]) -> Vec<TaskKey> {
    leased.iter().map(|leased| leased.lease.key.clone()).collect()
}

/// Parses the name of a task type; panics if it is invalid.
pub fn task_type(name: &str) -> TaskType {
    TaskType::try_from(name).expect("a valid name")
}

/// Parses the names of queues; panics if one is invalid.
pub fn queue_names(names: &[&str]) -> Vec<QueueName> {
    names.iter().map(|name| queue(name)).collect()
}

/// Decides the lease expiry of a task, without committing it.
pub async fn lost(harness: &Harness, key: &TaskKey) -> Transition {
    harness.decided(key, Command::Expire(OverdueReason::Lease)).await
}
