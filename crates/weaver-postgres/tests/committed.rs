//! Handlers that complete their task in their own transaction: the worker believes what it reads back.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::AssertSqlSafe;
use support::Schema;
use weaver_core::prelude::*;
use weaver_postgres::PostgresStore;
use weaver_runtime::{
    Client, Ctx, LocalSource, Registry, RunSummary, Shutdown, SystemClock, TaskError, Worker,
};

/// What the handlers of a test share: the store and a table of their own.
struct Shop {
    store: Arc<PostgresStore>,
    schema: String,
    runs: AtomicU32,
}

impl Shop {
    fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("shop.", &format!("{}.", self.schema)))
    }

    async fn count(&self, text: &str) -> i64 {
        sqlx::query_scalar(self.sql(text)).fetch_one(self.store.pool()).await.expect("the server answers")
    }

    /// A transaction that has recorded a sale and completed the task.
    async fn sale(
        &self,
        ctx: &Ctx,
    ) -> Result<(sqlx::Transaction<'static, sqlx::Postgres>, Outcome), TaskError> {
        let mut transaction = self.store.pool().begin().await?;
        sqlx::query(self.sql("INSERT INTO shop.sold VALUES (1)")).execute(&mut *transaction).await?;
        let end = self.store.complete_in(&mut transaction, ctx.lease(), Some("\"sold\"".into())).await?;
        Ok((transaction, end))
    }
}

/// Runs one task to its end; returns its record, the number of sales, and the worker's summary.
async fn run<F, Fut>(handler: F) -> (TaskRecord, i64, RunSummary)
where
    F: Fn(Arc<Shop>, Ctx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, TaskError>> + Send + 'static,
{
    let schema = Schema::new();
    let clock = Arc::new(SystemClock::new());
    let store = PostgresStore::open(schema.options(), clock.clone()).await.expect("the schema can be made");
    let store = Arc::new(store);
    let runs = AtomicU32::new(0);
    let shop = Arc::new(Shop { store: Arc::clone(&store), schema: schema.name.clone(), runs });
    let table = sqlx::query(shop.sql("CREATE TABLE shop.sold (number integer)"));
    table.execute(store.pool()).await.expect("a table can be made");
    let of_handler = Arc::clone(&shop);
    let handler = move |(): (), ctx| {
        of_handler.runs.fetch_add(1, Ordering::Relaxed);
        handler(Arc::clone(&of_handler), ctx)
    };
    let registry = Registry::new().handle("sell", handler).expect("a name");
    let source = Arc::new(LocalSource::new(store.clone()));
    let worker = Worker::builder(source, clock.clone()).registry(registry).build().expect("well described");
    let shutdown = Shutdown::new();
    let task = NewTask::new("sell").max_attempts(2).retry(RetryPolicy::Fixed { delay: Duration::ZERO });
    let task = Client::new(store.clone(), clock).enqueue(task).await.expect("the task is valid");
    let until_ended = async {
        let record = task.wait().await.expect("the store answers");
        shutdown.request();
        record
    };
    let (summary, record) = tokio::join!(worker.run(shutdown.clone()), until_ended);
    let sold = shop.count("SELECT count(*) FROM shop.sold").await;
    schema.drop(store.pool()).await;
    (record, sold, summary)
}

#[tokio::test]
async fn a_handler_that_commits_with_its_own_writes_has_ended_its_task() {
    let (record, sold, summary) = run(|shop, ctx| async move {
        let (transaction, end) = shop.sale(&ctx).await?;
        transaction.commit().await?;
        Ok(end)
    })
    .await;
    assert_eq!((record.state, record.executions, record.failures), (TaskState::Succeeded, 1, 0));
    assert_eq!((record.result.as_deref(), sold), (Some(&b"\"sold\""[..]), 1));
    assert_eq!((summary.succeeded, summary.failed, summary.lost), (1, 0, 0));
}

#[tokio::test]
async fn a_handler_that_rolled_back_and_says_committed_has_failed_its_attempt() {
    let (record, sold, summary) = run(|shop, ctx| async move {
        let (transaction, end) = shop.sale(&ctx).await?;
        match ctx.attempt() {
            1 => transaction.rollback().await?,
            _ => transaction.commit().await?,
        }
        Ok(end)
    })
    .await;
    assert_eq!((record.state, record.executions, record.failures), (TaskState::Succeeded, 2, 1));
    assert_eq!(sold, 1, "the rolled back sale is not stored");
    let first = record.attempts.iter().next().expect("the attempt that failed");
    let error = first.error.as_deref().expect("it says why");
    assert!(error.contains("the transaction was rolled back"), "{error}");
    assert_eq!((summary.succeeded, summary.failed), (1, 1));
}

#[tokio::test]
async fn a_handler_that_never_completed_its_task_and_says_committed_has_failed() {
    let (record, _, summary) = run(|_, _| async move { Ok(Outcome::Committed) }).await;
    assert_eq!((record.state, record.executions, record.failures), (TaskState::Dead, 2, 2));
    assert!(record.last_error.expect("it says why").contains("`complete_in` was never called"));
    assert_eq!((summary.succeeded, summary.failed), (0, 2));
}

/// The answer to the commit is lost, so the handler does not know its result. The commit is applied after the
/// worker has found the task still running, and before it charges a failure.
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_and_that_comes_late_still_counts() {
    let (record, sold, summary) = run(|shop, ctx| async move {
        let (transaction, end) = shop.sale(&ctx).await?;
        let commit = async move {
            let waiting = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.%'",
                shop.schema
            );
            while shop.count(&waiting).await == 0 {
                tokio::task::yield_now().await;
            }
            transaction.commit().await.expect("the server answers");
        };
        tokio::spawn(commit);
        Ok(end)
    })
    .await;
    assert_eq!((record.state, record.executions, record.failures), (TaskState::Succeeded, 1, 0));
    assert_eq!(sold, 1);
    assert_eq!((summary.succeeded, summary.failed, summary.lost), (1, 0, 0));
}

#[tokio::test]
async fn a_handler_whose_lease_was_lost_cannot_commit() {
    let (record, sold, summary) = run(|shop, ctx| async move {
        shop.store.cancel(ctx.key()).await?;
        let (transaction, end) = shop.sale(&ctx).await?;
        transaction.commit().await?;
        Ok(end)
    })
    .await;
    assert_eq!((record.state, sold), (TaskState::Cancelled, 0), "nothing of it was stored");
    assert_eq!((summary.succeeded, summary.failed), (0, 0));
}
