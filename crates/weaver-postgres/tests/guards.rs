//! The net: what the state machine does not allow is refused to hand-written SQL as well.

mod support;

use sqlx::postgres::PgPool;
use sqlx::{Connection, Executor, PgConnection};
use std::sync::Arc;
use support::Schema;
use weaver_core::projection::seed_004::State;
use weaver_core::queue::Queue;
use weaver_core::task::NewTask;
use weaver_postgres::{PostgresStore, allowed_moves};

/// A store, its schema, and a connection of somebody who writes SQL by hand.
struct Hand {
    schema: Schema,
    store: PostgresStore,
    connection: PgConnection,
}

impl Hand {
    async fn new() -> Self {
        let schema = Schema::new();
        let clock = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
        let connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
        Self { schema, store, connection }
    }

    fn pool(&self) -> &PgPool {
        self.store.pool()
    }

    async fn enqueue(&self) -> i64 {
        let answers = self.store.enqueue_batch(vec![NewTask::new("t")]).await.expect("the store answers");
        answers[0].as_ref().expect("it is stored").key.id.0 as i64
    }

    /// Whether the statement was done; refused ones must be refused by the net.
    async fn does(&mut self, text: &str) -> bool {
        match self.connection.execute(self.schema.sql(text)).await {
            Ok(done) => {
                assert!(done.rows_affected() > 0, "{text} touched nothing");
                true
            }
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("23514") => false,
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

#[tokio::test]
async fn every_pair_of_states_is_allowed_or_refused_as_core_has_it() {
    let mut hand = Hand::new().await;
    let allowed = allowed_moves();
    for from in State::ALL {
        for to in State::ALL {
            let id = hand.enqueue().await;
            // Past the net, to where the move begins.
            let put = format!(
                "SET session_replication_role = replica; UPDATE weaver.job_runs SET state = '{from}', version = 7 \
                 WHERE id = {id}; SET session_replication_role = DEFAULT"
            );
            sqlx::raw_sql(hand.schema.sql(&put))
                .execute(&mut hand.connection)
                .await
                .expect("a superuser may");
            let move_it = format!("UPDATE weaver.job_runs SET state = '{to}', version = 8 WHERE id = {id}");
            assert_eq!(hand.does(&move_it).await, allowed.contains(&(*from, *to)), "{from} -> {to}");
        }
    }
    hand.schema.drop(hand.pool()).await;
}

#[tokio::test]
async fn a_version_that_does_not_grow_by_one_and_an_attempt_that_goes_back_are_refused() {
    let mut hand = Hand::new().await;
    let id = hand.enqueue().await;
    for change in [
        "state = 'RUNNING'",
        "state = 'RUNNING', version = 3",
        "state = 'RUNNING', version = 2, attempt = -1",
    ] {
        assert!(
            !hand.does(&format!("UPDATE weaver.job_runs SET {change} WHERE id = {id}")).await,
            "{change}"
        );
    }
    assert!(
        hand.does(&format!("UPDATE weaver.job_runs SET state = 'RUNNING', version = 2 WHERE id = {id}"))
            .await
    );
    hand.schema.drop(hand.pool()).await;
}

#[tokio::test]
async fn live_runs_and_history_cannot_be_rewritten_or_removed_by_hand() {
    let mut hand = Hand::new().await;
    let id = hand.enqueue().await;
    for text in ["DELETE FROM weaver.job_runs", "TRUNCATE weaver.job_runs"] {
        assert!(!hand.does(text).await, "{text}");
    }
    let archive = format!(
        "UPDATE weaver.job_runs SET state = 'CANCELED', cause = 'user', version = 2, finished_at = now() WHERE id = {id}"
    );
    assert!(hand.does(&archive).await);
    sqlx::query(hand.schema.sql(&format!("SELECT weaver.archive('default', ARRAY[{id}])")))
        .execute(hand.pool())
        .await
        .expect("it has ended");
    for text in [
        "UPDATE weaver.job_run_history SET state = 'SUCCEEDED'",
        "UPDATE weaver.job_run_history SET version = version + 1",
        "UPDATE weaver.job_run_history SET finished_at = now()",
        "DELETE FROM weaver.job_run_history",
        "TRUNCATE weaver.job_run_history",
    ] {
        assert!(!hand.does(text).await, "{text}");
    }
    assert!(hand.does("UPDATE weaver.job_run_history SET log_ref = 'elsewhere'").await);
    hand.schema.drop(hand.pool()).await;
}
