//! Wake-ups: within this process at once, to other nodes by NOTIFY. Both are hints; whoever waits also polls.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use weaver_core::clock::Clock;

use crate::connections::Connections;
use crate::error::reason;
use crate::options::PostgresOptions;
use crate::sql::Statement;

/// Between attempts to listen again.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Who is woken by what.
#[derive(Debug)]
pub(crate) struct Hints {
    /// There may be something to lease.
    work: watch::Sender<()>,
    /// Something moved.
    changes: watch::Sender<()>,
    /// Other nodes should be told. One permit: what comes while one NOTIFY is under way is one more.
    tell: Notify,
}

impl Hints {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { work: watch::Sender::new(()), changes: watch::Sender::new(()), tell: Notify::new() })
    }

    pub(crate) fn of_work(&self) -> watch::Receiver<()> {
        self.work.subscribe()
    }

    pub(crate) fn of_changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Runs moved.
    pub(crate) fn moved(&self) {
        self.changes.send_replace(());
    }

    /// There may be something to lease, here and on other nodes.
    pub(crate) fn work(&self) {
        self.work.send_replace(());
        self.tell.notify_one();
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
        let teller = tokio::spawn(tell(Arc::clone(hints), connections, notify));
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
async fn tell(hints: Arc<Hints>, connections: Connections, notify: Statement) {
    loop {
        hints.tell.notified().await;
        // A hint that is lost is found by polling.
        if let Err(error) = notify.query().execute(&connections).await {
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
    hints.work.send_replace(());
    hints.changes.send_replace(());
    loop {
        match listener.try_recv().await? {
            Some(_) => {
                hints.work.send_replace(());
                hints.changes.send_replace(());
            }
            None => return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())),
        }
    }
}
