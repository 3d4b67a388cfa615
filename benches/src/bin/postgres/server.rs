//! The throw-away server of every subject, with full durability.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::runtime::Runtime;
use weaver_benches::cpu_seconds_of_tree;
use weaver_testkit::services::postgres::Private;

/// Settings beyond the defaults. fsync stays on; the rest is memory and the distance between checkpoints.
const SETTINGS: [&str; 3] =
    ["shared_buffers = '512MB'", "max_wal_size = '3GB'", "checkpoint_timeout = '15min'"];

/// A server, and a database for each subject.
pub struct Server(Private);

impl Server {
    /// Starts a server and creates the databases.
    pub fn start(runtime: &Runtime) -> Self {
        let server = Self(Private::durable());
        for setting in SETTINGS {
            server.say(runtime, "postgres", &format!("ALTER SYSTEM SET {setting}"));
        }
        server.0.stop("fast");
        server.0.restart();
        for database in ["weaver", "hand_written", "graphile", "apalis"] {
            server.say(runtime, "postgres", &format!("CREATE DATABASE {database}"));
        }
        server
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        self.0
            .url()
            .replace("/postgres", &format!("/{database}"))
            .replace(&format!("{database}://"), "postgres://")
    }

    /// Executes a statement in a database.
    pub fn say(&self, runtime: &Runtime, database: &str, text: &str) {
        runtime.block_on(async {
            let mut connection = self.connect(database).await;
            connection
                .execute(sqlx::raw_sql(AssertSqlSafe(text.to_owned())))
                .await
                .unwrap_or_else(|error| panic!("{text}: {error}"));
        });
    }

    /// CPU time of the server's processes, living and ended, in seconds.
    pub fn cpu_seconds(&self, runtime: &Runtime) -> f64 {
        let postmaster = "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::bigint";
        let postmaster = u32::try_from(self.ask(runtime, "postgres", postmaster)).expect("a process id");
        cpu_seconds_of_tree(postmaster)
    }

    /// Bytes of WAL written so far.
    pub fn wal_bytes(&self, runtime: &Runtime) -> i64 {
        self.ask(runtime, "postgres", "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
    }

    /// Runs a query that returns one number.
    pub fn ask(&self, runtime: &Runtime, database: &str, text: &str) -> i64 {
        runtime.block_on(async {
            let mut connection = self.connect(database).await;
            let asked = sqlx::query_scalar(AssertSqlSafe(text.to_owned())).fetch_one(&mut connection).await;
            asked.unwrap_or_else(|error| panic!("{text}: {error}"))
        })
    }

    /// A connection to a database.
    pub async fn connect(&self, database: &str) -> PgConnection {
        PgConnection::connect(&self.url(database)).await.expect("the server answers")
    }
}
