//! The store: a pool, the texts of its statements, and what wakes those who wait.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use sqlx::postgres::{PgPool, PgPoolOptions};
use weaver_core::clock::Clock;
use weaver_core::quarantine::Quarantine;
use weaver_core::time::Monotonic;

use crate::connections::Connections;
use crate::error::{OpenError, Outcome, reason};
use crate::hints::{Carriers, Hints};
use crate::options::PostgresOptions;
use crate::ports::{DocumentTables, LogStatements, StreamTables};
use crate::queue::Follower;
use crate::schema::{self, Migrations, WeakGuard};
use crate::sql::Statements;

/// How often a call is made again when the server undid it for reasons of its own.
const TRIES_MAX: usize = 5;

/// Every port over PostgreSQL. Cheap to share behind an `Arc`; one per process is enough.
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
    /// What this process could not read.
    pub(crate) quarantine: Quarantine,
    /// When it last looked at that again.
    pub(crate) reviewed_at: Mutex<Option<Monotonic>>,
    /// When this process last tidied up.
    pub(crate) tidied_at: Mutex<Option<Monotonic>>,
    /// When it last looked whether tables need a vacuum.
    pub(crate) vacuumed_at: Mutex<Option<Monotonic>>,
    _carriers: Carriers,
}

impl PostgresStore {
    /// Connects, brings the schema up to date unless told not to, and begins to listen. Must be called within
    /// a tokio runtime.
    pub async fn open(options: PostgresOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        if options.migrate {
            schema::migrate(&options, false).await?;
        } else {
            schema::check(&options).await?;
        }
        let sql = Statements::new(options.wording());
        // Behind a pooler a setting of the connection would be one of whoever comes next.
        let timeout = options.statement_timeout.filter(|_| !options.is_pooled);
        let pool = PgPoolOptions::new()
            .max_connections(options.pool_max)
            .acquire_timeout(options.acquire_timeout)
            // A connection that broke is noticed by the statement that uses it; asking first costs a round
            // trip each.
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
        let place = options.redacted().to_string();
        let first: i64 = sql
            .incarnation
            .scalar()
            .fetch_one(&connections)
            .await
            .map_err(|error| OpenError::Connect { place, reason: reason(&error) })?;
        let hints = Hints::new(first.unsigned_abs());
        let carriers = Carriers::start(
            &hints,
            connections.clone(),
            sql.notify.clone(),
            options.clone(),
            Arc::clone(&clock),
        );
        Ok(Self {
            tables: DocumentTables::new(options.wording()),
            streams: StreamTables::new(options.wording()),
            logs: LogStatements::new(options.wording()),
            connections,
            sql,
            options,
            hints,
            clock,
            // Drawn from the database: no other node, and no other life of this one, has it.
            follower: Mutex::new(Follower::new(first.unsigned_abs())),
            quarantine: Quarantine::default(),
            reviewed_at: Mutex::new(None),
            tidied_at: Mutex::new(None),
            vacuumed_at: Mutex::new(None),
            _carriers: carriers,
        })
    }

    /// Brings a schema up to date, or only says what that would take.
    pub async fn migrate(options: &PostgresOptions, dry_run: bool) -> Result<Migrations, OpenError> {
        schema::migrate(options, dry_run).await
    }

    /// The guards of a schema that are missing or disabled; none is as it should be.
    pub async fn weak_guards(options: &PostgresOptions) -> Result<Vec<WeakGuard>, OpenError> {
        schema::weak_guards(options).await
    }

    /// The connections, for those who write their own tables beside Weaver's.
    pub fn pool(&self) -> &PgPool {
        self.connections.pool()
    }

    /// How it is reached.
    pub fn options(&self) -> &PostgresOptions {
        &self.options
    }

    /// Makes a call, and makes it again if the server undid it because two got in each other's way.
    pub(crate) async fn again<T, F>(&self, call: impl Fn() -> F) -> Outcome<T>
    where
        F: Future<Output = Outcome<T>>,
    {
        for _ in 1..TRIES_MAX {
            match call().await {
                Err(trouble) if trouble.is_transient() => {}
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
