//! The connection pool, direct or behind a pooler in transaction mode.
//!
//! ```text
//! direct      statement                      prepared once per connection, one round trip
//! pooled      BEGIN · statement · COMMIT     never prepared by name
//! ```
//!
//! A pooler in transaction mode gives each transaction any free server connection. The driver sends PARSE and
//! BIND separately: without a transaction around them they may reach two connections, and a prepared
//! statement's name that one connection knows means something else, or nothing, on another.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryFutureExt, TryStreamExt};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgPool, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{
    AssertSqlSafe, Describe, Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr, Transaction,
};

/// A pool that runs each statement on one server connection, with or without a pooler in between.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    pool: PgPool,
    /// The statements that begin a transaction behind a pooler; `None`: a direct connection.
    begin: Option<String>,
}

impl Connections {
    /// A direct connection: its settings were made when it was opened.
    pub(crate) fn direct(pool: PgPool) -> Self {
        Self { pool, begin: None }
    }

    /// Behind a pooler in transaction mode: settings last for one transaction and are repeated in each.
    pub(crate) fn pooled(pool: PgPool, statement_timeout: Option<Duration>) -> Self {
        let timeout = statement_timeout.map(|limit| local("statement_timeout", limit));
        Self { pool, begin: Some(format!("BEGIN{}", timeout.unwrap_or_default())) }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A transaction with a `lock_timeout`.
    pub(crate) async fn begin_with_lock_timeout(
        &self,
        lock_timeout: Duration,
    ) -> Result<Transaction<'static, Postgres>, Error> {
        let begin = self.begin.as_deref().unwrap_or("BEGIN");
        self.pool.begin_with(AssertSqlSafe(format!("{begin}{}", local("lock_timeout", lock_timeout)))).await
    }

    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        match &self.begin {
            None => self.pool.begin().await,
            Some(begin) => self.pool.begin_with(AssertSqlSafe(begin.clone())).await,
        }
    }

    /// A connection for one statement. Behind a pooler nothing is committed before [`Session::end`].
    pub(crate) async fn session(&self) -> Result<Session, Error> {
        Ok(match self.begin {
            None => Session::Plain(self.pool.acquire().await?),
            Some(_) => Session::Transaction(self.begin().await?),
        })
    }

    /// Runs a statement that must not be in a transaction, such as VACUUM. Without parameters it is a single
    /// message, which is safe behind a pooler.
    pub(crate) async fn execute_bare(&self, text: String) -> Result<(), Error> {
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&self.pool).await.map(|_| ())
    }
}

/// `; SET LOCAL name = milliseconds`
fn local(name: &str, span: Duration) -> String {
    format!("; SET LOCAL {name} = {}", span.as_millis())
}

/// What one statement runs in.
#[derive(Debug)]
pub(crate) enum Session {
    /// A connection, on which every statement is a transaction of its own.
    Plain(PoolConnection<Postgres>),
    /// A transaction, rolled back if it is dropped.
    Transaction(Transaction<'static, Postgres>),
}

impl Session {
    pub(crate) async fn end(self) -> Result<(), Error> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Transaction(transaction) => transaction.commit().await,
        }
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Plain(connection) => connection,
            Self::Transaction(transaction) => transaction,
        }
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Plain(connection) => connection,
            Self::Transaction(transaction) => transaction,
        }
    }
}

/// So that `fetch_one(&self.connections)` reads like the pool's own.
impl<'c> Executor<'c> for &'_ Connections {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        if self.begin.is_none() {
            return self.pool.fetch_many(query);
        }
        let connections = self.clone();
        let whole = async move {
            let mut session = connections.session().await?;
            let steps: Vec<_> = (&mut *session).fetch_many(query).try_collect().await?;
            // Rows are returned only after the commit.
            session.end().await?;
            Ok(stream::iter(steps.into_iter().map(Ok)))
        };
        whole.try_flatten_stream().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let connections = self.clone();
        Box::pin(async move {
            let mut session = connections.session().await?;
            let row = (&mut *session).fetch_optional(query).await?;
            session.end().await?;
            Ok(row)
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'c: 'e,
    {
        self.pool.prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, Error>>
    where
        'c: 'e,
    {
        self.pool.describe(sql)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_testkit::services::postgres::Shared;

    async fn timeout_of(executor: impl Executor<'_, Database = Postgres>) -> String {
        let shown = sqlx::query_scalar("SHOW statement_timeout").persistent(false);
        shown.fetch_one(executor).await.expect("the server answers")
    }

    #[tokio::test]
    async fn settings_of_a_pooled_statement_end_with_its_transaction() {
        let server = Shared::server();
        let options = sqlx::postgres::PgPoolOptions::new().max_connections(1);
        let pool = options.connect(server.url()).await.expect("the server answers");
        let connections = Connections::pooled(pool.clone(), Some(Duration::from_millis(250)));
        assert_eq!(timeout_of(&connections).await, "250ms");
        let mut transaction =
            connections.begin_with_lock_timeout(Duration::from_secs(1)).await.expect("it begins");
        assert_eq!(timeout_of(&mut *transaction).await, "250ms");
        drop(transaction);
        assert_eq!(timeout_of(&pool).await, "0");
    }

    #[tokio::test]
    async fn a_pooled_statement_is_committed_when_it_returns_and_rolled_back_if_it_fails() {
        let server = Shared::server();
        let pool = PgPool::connect(server.url()).await.expect("the server answers");
        let connections = Connections::pooled(pool.clone(), None);
        let table = format!("pooled_{}", std::process::id());
        let run = |text: &str| {
            let text = AssertSqlSafe(text.replace("TABLE_NAME", &table));
            let connections = &connections;
            async move { sqlx::query(text).persistent(false).fetch_optional(connections).await }
        };
        run("CREATE TABLE TABLE_NAME (n int)").await.expect("it is made");
        run("INSERT INTO TABLE_NAME VALUES (1) RETURNING n").await.expect("it is stored");
        run("INSERT INTO TABLE_NAME SELECT n / (n - 2) FROM generate_series(3, 2, -1) n")
            .await
            .expect_err("zero");
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let stored: i64 = sqlx::query_scalar(count).fetch_one(&pool).await.expect("the server answers");
        assert_eq!(stored, 1);
        run("DROP TABLE TABLE_NAME").await.expect("it is ours");
    }
}
