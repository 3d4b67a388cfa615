//! The store: a connection pool, its statements, and the hints that wake waiting workers.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use sqlx::postgres::{PgPool, PgPoolOptions};
use weaver_core::clock::Clock;
use weaver_core::quarantine::Quarantine;
use weaver_core::time::Monotonic;

use crate::connections::Connections;
use crate::error::{OpenError, Result, reason};
use crate::hints::{HintLoops, Hints};
use crate::options::PostgresOptions;
use crate::ports::{DocumentTables, LogStatements, StreamTables};
use crate::queue::{Follower, OpenLeases};
use crate::schema::{self, Migrations, WeakGuard};
use crate::sql::Statements;

/// Attempts at a call that fails with a serialization failure or a deadlock.
const TRIES_MAX: usize = 5;

/// Every port over PostgreSQL. Share it behind an `Arc`; one per process is enough.
pub struct PostgresStore {
    pub(crate) connections: Connections,
    pub(crate) sql: Statements,
    pub(crate) tables: DocumentTables,
    pub(crate) streams: StreamTables,
    pub(crate) logs: LogStatements,
    pub(crate) options: PostgresOptions,
    pub(crate) hints: Arc<Hints>,
    /// For waiting only: no instant of this process enters a record.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) follower: Mutex<Follower>,
    /// Records that this process could not read.
    pub(crate) quarantine: Quarantine,
    /// The leases this process was granted, to tell which are over.
    pub(crate) open_leases: OpenLeases,
    /// When the quarantine was last reviewed.
    pub(crate) reviewed_at: Mutex<Option<Monotonic>>,
    pub(crate) pruned_at: Mutex<Option<Monotonic>>,
    /// When the tables were last checked for dead rows.
    pub(crate) vacuumed_at: Mutex<Option<Monotonic>>,
    _hint_loops: HintLoops,
}

impl PostgresStore {
    /// Connects, applies pending migrations (or, with `migrate` off, checks the version) and starts to
    /// listen. Must be called within a tokio runtime.
    pub async fn open(options: PostgresOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        if options.migrate {
            schema::migrate(&options, false).await?;
        } else {
            schema::check(&options).await?;
        }
        let sql = Statements::new(options.statement_options());
        // Behind a pooler a setting of the connection would leak to the next client.
        let timeout = options.statement_timeout.filter(|_| !options.is_pooled);
        let pool = PgPoolOptions::new()
            .max_connections(options.pool_max)
            .acquire_timeout(options.acquire_timeout)
            // The statement itself notices a broken connection; a test would cost a round trip each time.
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    let Some(timeout) = timeout else { return Ok(()) };
                    let set = sqlx::query("SELECT set_config('statement_timeout', $1, false)");
                    set.bind(timeout.as_millis().to_string()).execute(connection).await.map(|_| ())
                })
            })
            .connect_lazy_with(options.connect_options()?);
        let connections = match options.is_pooled {
            true => Connections::pooled(pool, options.statement_timeout),
            false => Connections::direct(pool),
        };
        let server = options.redacted().to_string();
        let first: i64 = sql
            .incarnation
            .scalar()
            .fetch_one(&connections)
            .await
            .map_err(|error| OpenError::Connect { server, reason: reason(&error) })?;
        let hints = Hints::new(first.unsigned_abs());
        let hint_loops = HintLoops::start(
            &hints,
            connections.clone(),
            sql.notify.clone(),
            options.clone(),
            Arc::clone(&clock),
        );
        Ok(Self {
            tables: DocumentTables::new(options.statement_options()),
            streams: StreamTables::new(options.statement_options()),
            logs: LogStatements::new(options.statement_options()),
            connections,
            sql,
            options,
            hints,
            clock,
            // Drawn from a sequence: unique over all nodes and restarts.
            follower: Mutex::new(Follower::new(first.unsigned_abs())),
            quarantine: Quarantine::default(),
            open_leases: OpenLeases::default(),
            reviewed_at: Mutex::new(None),
            pruned_at: Mutex::new(None),
            vacuumed_at: Mutex::new(None),
            _hint_loops: hint_loops,
        })
    }

    /// Applies the pending migrations of a schema; `dry_run` only lists them.
    pub async fn migrate(options: &PostgresOptions, dry_run: bool) -> Result<Migrations, OpenError> {
        schema::migrate(options, dry_run).await
    }

    /// The guard triggers that are missing or not enabled for every session; empty in a sound schema.
    pub async fn weak_guards(options: &PostgresOptions) -> Result<Vec<WeakGuard>, OpenError> {
        schema::weak_guards(options).await
    }

    /// The connection pool, for handlers that write their own tables in the same database.
    pub fn pool(&self) -> &PgPool {
        self.connections.pool()
    }

    /// The options it was opened with.
    pub fn options(&self) -> &PostgresOptions {
        &self.options
    }

    /// Makes a call, retrying it up to [`TRIES_MAX`] times after a serialization failure or a deadlock.
    pub(crate) async fn retry_transient<T, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        for _ in 1..TRIES_MAX {
            match call().await {
                Err(fault) if fault.is_transient() => {}
                answer => return answer,
            }
        }
        call().await
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PostgresStore({}, schema {})", self.options.redacted(), self.options.schema)
    }
}
