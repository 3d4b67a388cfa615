//! Wake-ups: within this process at once, to other nodes by NOTIFY. Both are hints; whoever waits also polls.
//!
//! ```text
//! enqueue ─▶ commit, with NOTIFY in it if the line was quiet ─▶ waiters here: at once
//!                │ else: the teller, one NOTIFY for all that came meanwhile
//!                └─▶ listener of another node ─▶ waiters there
//! ```
//!
//! A hint may name what came. Whoever waits for that goes straight to its lease, and the others go on
//! sleeping.

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

/// Between attempts to listen again.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A NOTIFY that comes sooner after the last is left to the teller: notifying transactions commit one after
/// the other.
const QUIET: Duration = Duration::from_millis(5);

/// Tasks that anybody who serves their queue and type can lease: due, without a key, fit to wait in a buffer,
/// in a queue that has no settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) namespace: String,
    pub(crate) queue: String,
    pub(crate) task_type: String,
}

impl Plain {
    pub(crate) fn is_for(&self, interest: &Interest) -> bool {
        match interest {
            Interest::Work { namespace, queues, types, fragile: _ } => {
                namespace.as_str() == self.namespace
                    && queues.iter().any(|queue| queue.as_str() == self.queue)
                    && types
                        .as_ref()
                        .is_none_or(|types| types.iter().any(|name| name.as_str() == self.task_type))
            }
            Interest::Cancelled { .. } | Interest::Changes { .. } => false,
        }
    }
}

/// The last hint. Whoever has seen the one before knows all that was said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) number: u64,
    /// What came; `None`: anything.
    pub(crate) what: Option<Arc<Plain>>,
}

/// Who is woken by what.
#[derive(Debug)]
pub(crate) struct Hints {
    /// There may be something to lease.
    work: watch::Sender<Said>,
    /// Something moved.
    changes: watch::Sender<()>,
    /// This process cancelled a running task. Apart from `changes`: each look costs a query, and moves are
    /// many.
    cancelled: watch::Sender<()>,
    /// Other nodes should be told. One permit: what comes while one NOTIFY is under way is one more.
    tell: Notify,
    /// This process, by a number that no other has: what it hears of itself it knows.
    teller: String,
    /// When a NOTIFY was last sent.
    told_at: Mutex<Option<Monotonic>>,
}

impl Hints {
    pub(crate) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self {
            work: watch::Sender::default(),
            changes: watch::Sender::new(()),
            cancelled: watch::Sender::new(()),
            tell: Notify::new(),
            teller: number.to_string(),
            told_at: Mutex::new(None),
        })
    }

    pub(crate) fn of_work(&self) -> watch::Receiver<Said> {
        self.work.subscribe()
    }

    pub(crate) fn of_changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(crate) fn of_cancelled(&self) -> watch::Receiver<()> {
        self.cancelled.subscribe()
    }

    /// A running task was cancelled.
    pub(crate) fn cancelled(&self) {
        self.cancelled.send_replace(());
    }

    /// Runs moved.
    pub(crate) fn moved(&self) {
        self.changes.send_replace(());
    }

    /// There may be something to lease, here and on other nodes.
    pub(crate) fn work(&self) {
        self.say(None);
        self.tell.notify_one();
    }

    /// The same, of which more is known; `is_told`: other nodes know already.
    pub(crate) fn work_of(&self, what: Option<Plain>, is_told: bool) {
        self.say(what);
        if !is_told {
            self.tell.notify_one();
        }
    }

    /// What a transaction is to tell other nodes with, if it may: not while there is a crowd.
    pub(crate) fn teller(&self, now: Monotonic) -> Option<&str> {
        let mut told_at = self.told_at.lock();
        if told_at.is_some_and(|at| now < at.saturating_add(QUIET)) {
            return None;
        }
        *told_at = Some(now);
        Some(&self.teller)
    }

    fn say(&self, what: Option<Plain>) {
        let what = what.map(Arc::new);
        self.work.send_modify(|said| *said = Said { number: said.number.wrapping_add(1), what });
    }

    /// What another node told.
    fn heard(&self, payload: &str) {
        let mut parts = payload.split('\n');
        let teller = parts.next();
        if teller == Some(self.teller.as_str()) {
            return;
        }
        let parts: [Option<&str>; 3] = [parts.next(), parts.next(), parts.next()];
        let what = match parts {
            [Some(namespace), Some(queue), Some(task_type)] => Some(Plain {
                namespace: namespace.to_owned(),
                queue: queue.to_owned(),
                task_type: task_type.to_owned(),
            }),
            _ => None,
        };
        self.say(what);
        self.moved();
    }
}

/// The tasks that carry hints between nodes; they end with this.
#[derive(Debug)]
pub(crate) struct Carriers(Vec<JoinHandle<()>>);

impl Carriers {
    #[expect(clippy::disallowed_methods, reason = "two tasks that belong to the store and end with it")]
    pub(crate) fn start(
        hints: &Arc<Hints>,
        connections: Connections,
        notify: Statement,
        options: PostgresOptions,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let teller = tokio::spawn(tell(Arc::clone(hints), connections, notify, Arc::clone(&clock)));
        let listener = tokio::spawn(listen(Arc::clone(hints), options, clock));
        Self(vec![teller, listener])
    }
}

impl Drop for Carriers {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Sends a NOTIFY for everything that came since the last: a burst of enqueues is one or two of them.
async fn tell(hints: Arc<Hints>, connections: Connections, notify: Statement, clock: Arc<dyn Clock>) {
    loop {
        hints.tell.notified().await;
        *hints.told_at.lock() = Some(clock.monotonic());
        // A hint that is lost is found by polling.
        if let Err(error) = notify.query().bind(&hints.teller).execute(&connections).await {
            tracing::debug!(reason = reason(&error), "other nodes were not told of new work; they poll");
        }
    }
}

/// Listens on a connection of its own, so that a pooler in between is no matter; comes back by itself.
async fn listen(hints: Arc<Hints>, options: PostgresOptions, clock: Arc<dyn Clock>) {
    let mut pause = PAUSE_MIN;
    let mut lost = false;
    loop {
        match session(&hints, &options, &mut lost, &mut pause).await {
            // Said once, however often it is tried again.
            Err(error) if !lost => {
                lost = true;
                let (reason, place) = (reason(&error), options.redacted().to_string());
                tracing::warn!(reason, place, "lost PostgreSQL; trying again until it answers");
            }
            Err(_) | Ok(()) => {}
        }
        clock.sleep_until(clock.monotonic().saturating_add(pause)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn session(
    hints: &Hints,
    options: &PostgresOptions,
    lost: &mut bool,
    pause: &mut Duration,
) -> Result<(), sqlx::Error> {
    let connect = options.listen_options().map_err(|error| sqlx::Error::Configuration(error.into()))?;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(connect).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(&format!("{}.work", options.schema)).await?;
    if std::mem::take(lost) {
        tracing::info!(place = options.redacted().to_string(), "PostgreSQL answers again");
    }
    *pause = PAUSE_MIN;
    // Something may have come while nobody listened.
    hints.say(None);
    hints.moved();
    loop {
        match listener.try_recv().await? {
            Some(notification) => hints.heard(notification.payload()),
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
    fn a_hint_that_names_a_task_is_for_those_who_could_lease_it() {
        let hints = Hints::new(7);
        let mut said = hints.of_work();
        hints.heard("8\ndefault\nmail\nsend");
        let what = said.borrow_and_update().what.clone().unwrap();
        assert!(what.is_for(&interest("mail", None)) && what.is_for(&interest("mail", Some("send"))));
        assert!(!what.is_for(&interest("mail", Some("print"))) && !what.is_for(&interest("other", None)));
    }

    #[test]
    fn what_nobody_named_is_for_everybody_and_what_this_node_told_is_known_to_it() {
        let hints = Hints::new(7);
        let mut said = hints.of_work();
        hints.heard("7\ndefault\nmail\nsend");
        assert!(!said.has_changed().unwrap());
        for payload in ["", "8", "8\ndefault"] {
            hints.heard(payload);
            assert_eq!(said.borrow_and_update().what, None, "{payload:?}");
        }
        assert_eq!(said.borrow().number, 3);
    }

    #[test]
    fn transactions_notify_while_the_line_is_quiet() {
        let hints = Hints::new(7);
        let at = |millis| Monotonic(Duration::from_millis(millis));
        assert_eq!(hints.teller(at(0)), Some("7"));
        assert_eq!(hints.teller(at(4)), None);
        assert_eq!(hints.teller(at(5)), Some("7"));
    }
}
