//! Wake-ups: immediate within this process, by NOTIFY to other nodes. Both are hints: a waiter polls as well.
//!
//! ```text
//! enqueue ─▶ commit, with NOTIFY in the transaction if none was sent recently ─▶ local waiters
//!                │ otherwise the notifier sends one NOTIFY for everything since the last
//!                └─▶ LISTEN on another node ─▶ its waiters
//! ```
//!
//! A hint may name the tasks it is about. A worker that can lease them does so without a probe; the other
//! waiters keep sleeping.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::postgres::PgListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use weaver_core::clock::Clock;
use weaver_core::queue::Interest;
use weaver_core::time::Monotonic;

use crate::connections::Connections;
use crate::error::reason;
use crate::options::PostgresOptions;
use crate::sql::Statement;

/// Backoff between attempts to reconnect the LISTEN session; doubled up to the maximum.
const RECONNECT_BACKOFF_MIN: Duration = Duration::from_millis(100);
const RECONNECT_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Transactions that NOTIFY commit one at a time, so within this interval the notifier sends it instead.
const NOTIFY_INTERVAL_MIN: Duration = Duration::from_millis(5);

/// Tasks that any worker of their queue and type can lease: due, without a serial key, not fragile, in a
/// queue without settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadyTasks {
    pub(crate) namespace: String,
    pub(crate) queue: String,
    pub(crate) task_type: String,
}

impl ReadyTasks {
    pub(crate) fn match_interest(&self, interest: &Interest) -> bool {
        match interest {
            Interest::Work { namespace, queues, types, fragile: _ } => {
                namespace.as_str() == self.namespace
                    && queues.iter().any(|queue| queue.as_str() == self.queue)
                    && types
                        .as_ref()
                        .is_none_or(|types| types.iter().any(|name| name.as_str() == self.task_type))
            }
            // A hint names tasks of a queue without settings and without a dispatch of their own: they are
            // pulled.
            Interest::Assignable { .. }
            | Interest::Assigned { .. }
            | Interest::Cancelled { .. }
            | Interest::Changes { .. } => false,
        }
    }
}

/// The latest hint. `number` grows by one with each, so a waiter knows whether it missed any.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkHint {
    pub(crate) number: u64,
    /// `None`: any task may have become ready.
    pub(crate) tasks: Option<Arc<ReadyTasks>>,
}

#[derive(Debug)]
pub(crate) struct Hints {
    /// There may be a task to lease.
    work: watch::Sender<WorkHint>,
    /// At least one task changed state.
    changes: watch::Sender<()>,
    /// This process cancelled a running task. Apart from `changes`: a wake-up costs a query, and changes are
    /// frequent.
    cancelled: watch::Sender<()>,
    /// A NOTIFY is due. One permit: requests made while one is being sent are combined into the next.
    notify_due: Notify,
    /// Unique to this process, so that it ignores its own notifications.
    node_id: String,
    /// When a NOTIFY was last sent.
    notified_at: Mutex<Option<Monotonic>>,
}

impl Hints {
    pub(crate) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self {
            work: watch::Sender::default(),
            changes: watch::Sender::new(()),
            cancelled: watch::Sender::new(()),
            notify_due: Notify::new(),
            node_id: number.to_string(),
            notified_at: Mutex::new(None),
        })
    }

    pub(crate) fn subscribe_work(&self) -> watch::Receiver<WorkHint> {
        self.work.subscribe()
    }

    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(crate) fn subscribe_cancelled(&self) -> watch::Receiver<()> {
        self.cancelled.subscribe()
    }

    /// A running task was cancelled by this process.
    pub(crate) fn cancelled(&self) {
        self.cancelled.send_replace(());
    }

    /// Wakes local followers of changes; other nodes poll.
    pub(crate) fn moved(&self) {
        self.changes.send_replace(());
    }

    /// There may be a task to lease: wakes local waiters and has a NOTIFY sent.
    pub(crate) fn work_ready(&self) {
        self.publish(None);
        self.notify_due.notify_one();
    }

    /// The same for known tasks. `is_notified`: the transaction has sent the NOTIFY.
    pub(crate) fn work_ready_for(&self, tasks: Option<ReadyTasks>, is_notified: bool) {
        self.publish(tasks);
        if !is_notified {
            self.notify_due.notify_one();
        }
    }

    /// The node id a transaction sends NOTIFY with; `None` if one was sent within [`NOTIFY_INTERVAL_MIN`].
    pub(crate) fn notify_as(&self, now: Monotonic) -> Option<&str> {
        let mut notified_at = self.notified_at.lock();
        if notified_at.is_some_and(|at| now < at.saturating_add(NOTIFY_INTERVAL_MIN)) {
            return None;
        }
        *notified_at = Some(now);
        Some(&self.node_id)
    }

    fn publish(&self, tasks: Option<ReadyTasks>) {
        let tasks = tasks.map(Arc::new);
        self.work.send_modify(|hint| *hint = WorkHint { number: hint.number.wrapping_add(1), tasks });
    }

    /// Handles the payload of a notification: `node`, or `node\nnamespace\nqueue\ntype`.
    fn receive(&self, payload: &str) {
        let mut parts = payload.split('\n');
        let sender = parts.next();
        if sender == Some(self.node_id.as_str()) {
            return;
        }
        let parts: [Option<&str>; 3] = [parts.next(), parts.next(), parts.next()];
        let tasks = match parts {
            [Some(namespace), Some(queue), Some(task_type)] => Some(ReadyTasks {
                namespace: namespace.to_owned(),
                queue: queue.to_owned(),
                task_type: task_type.to_owned(),
            }),
            _ => None,
        };
        self.publish(tasks);
        self.moved();
    }
}

/// The background tasks that send and receive notifications; aborted on drop.
#[derive(Debug)]
pub(crate) struct HintLoops(Vec<JoinHandle<()>>);

impl HintLoops {
    #[expect(clippy::disallowed_methods, reason = "two background tasks that the store owns and aborts")]
    pub(crate) fn start(
        hints: &Arc<Hints>,
        connections: Connections,
        notify: Statement,
        options: PostgresOptions,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let notifier =
            tokio::spawn(notify_other_nodes(Arc::clone(hints), connections, notify, Arc::clone(&clock)));
        let listener = tokio::spawn(listen(Arc::clone(hints), options, clock));
        Self(vec![notifier, listener])
    }
}

impl Drop for HintLoops {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Sends one NOTIFY for all requests since the last: a burst of enqueues costs one or two.
async fn notify_other_nodes(
    hints: Arc<Hints>,
    connections: Connections,
    notify: Statement,
    clock: Arc<dyn Clock>,
) {
    loop {
        hints.notify_due.notified().await;
        *hints.notified_at.lock() = Some(clock.monotonic());
        // Other nodes poll, so a lost notification only delays them.
        if let Err(error) = notify.query().bind(&hints.node_id).execute(&connections).await {
            tracing::debug!(reason = reason(&error), "NOTIFY failed; other nodes find the work by polling");
        }
    }
}

/// Listens on a dedicated connection, which must not go through a pooler; reconnects with backoff.
async fn listen(hints: Arc<Hints>, options: PostgresOptions, clock: Arc<dyn Clock>) {
    let mut backoff = RECONNECT_BACKOFF_MIN;
    let mut lost = false;
    loop {
        match session(&hints, &options, &mut lost, &mut backoff).await {
            // Logged once per outage, not per attempt.
            Err(error) if !lost => {
                lost = true;
                let (reason, server) = (reason(&error), options.redacted().to_string());
                tracing::warn!(reason, server, "lost the connection to PostgreSQL; reconnecting");
            }
            Err(_) | Ok(()) => {}
        }
        clock.sleep_until(clock.monotonic().saturating_add(backoff)).await;
        backoff = (backoff * 2).min(RECONNECT_BACKOFF_MAX);
    }
}

async fn session(
    hints: &Hints,
    options: &PostgresOptions,
    lost: &mut bool,
    backoff: &mut Duration,
) -> Result<(), sqlx::Error> {
    let connect = options.listen_options().map_err(|error| sqlx::Error::Configuration(error.into()))?;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(connect).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(&format!("{}.work", options.schema)).await?;
    if std::mem::take(lost) {
        tracing::info!(server = options.redacted().to_string(), "reconnected to PostgreSQL");
    }
    *backoff = RECONNECT_BACKOFF_MIN;
    // Notifications sent while this process did not listen are lost.
    hints.publish(None);
    hints.moved();
    loop {
        match listener.try_recv().await? {
            Some(notification) => hints.receive(notification.payload()),
            None => return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_core::name::{Namespace, QueueName, TaskType};

    fn interest(queue: &'static str, types: Option<&'static str>) -> Interest {
        Interest::Work {
            namespace: Namespace::default(),
            queues: vec![QueueName::new(queue).unwrap()],
            types: types.map(|name| vec![TaskType::new(name).unwrap()]),
            fragile: false,
        }
    }

    #[test]
    fn a_hint_that_names_a_task_matches_only_workers_that_can_lease_it() {
        let hints = Hints::new(7);
        let mut received = hints.subscribe_work();
        hints.receive("8\ndefault\nmail\nsend");
        let tasks = received.borrow_and_update().tasks.clone().unwrap();
        assert!(tasks.match_interest(&interest("mail", None)));
        assert!(tasks.match_interest(&interest("mail", Some("send"))));
        assert!(!tasks.match_interest(&interest("mail", Some("print"))));
        assert!(!tasks.match_interest(&interest("other", None)));
    }

    #[test]
    fn a_hint_without_a_task_wakes_every_waiter_and_a_node_ignores_its_own_notify() {
        let hints = Hints::new(7);
        let mut received = hints.subscribe_work();
        hints.receive("7\ndefault\nmail\nsend");
        assert!(!received.has_changed().unwrap());
        for payload in ["", "8", "8\ndefault"] {
            hints.receive(payload);
            assert_eq!(received.borrow_and_update().tasks, None, "{payload:?}");
        }
        assert_eq!(received.borrow().number, 3);
    }

    #[test]
    fn a_transaction_sends_notify_unless_one_was_sent_recently() {
        let hints = Hints::new(7);
        let at = |millis| Monotonic(Duration::from_millis(millis));
        assert_eq!(hints.notify_as(at(0)), Some("7"));
        assert_eq!(hints.notify_as(at(4)), None);
        assert_eq!(hints.notify_as(at(5)), Some("7"));
    }
}
