//! The audit entry of an enqueue is in the transaction of its tasks (ADR 0056).

mod support;

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use support::Schema;
use weaver_core::id::TaskKey;
use weaver_core::name::Namespace;
use weaver_core::ports::{Journal, ReadFrom, Scope, Seq, StreamKey, Tasks};
use weaver_core::queue::{EnqueueAudit, Queue};
use weaver_core::task::NewTask;
use weaver_postgres::PostgresStore;

struct Harness {
    schema: Schema,
    store: PostgresStore,
}

impl Harness {
    async fn new() -> Self {
        let schema = Schema::new();
        let clock = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
        Self { schema, store }
    }

    async fn by_hand(&self) -> PgConnection {
        PgConnection::connect(self.schema.server_url()).await.expect("the server answers")
    }

    async fn enqueue(&self, count: usize) -> weaver_core::error::Result<Vec<TaskKey>> {
        let audit = EnqueueAudit { before: "ada ".to_owned(), after: String::new() };
        let stored = self.store.enqueue_audited(vec![NewTask::new("t"); count], audit).await?;
        stored.into_iter().map(|stored| stored.map(|stored| stored.key)).collect()
    }

    /// The tasks and the audit entries of the default namespace.
    async fn contents(&self) -> (u64, Vec<String>) {
        let counts = self.store.counts(Scope::Namespace(Namespace::default())).await.expect("it answers");
        let stream = StreamKey::audit(Namespace::default());
        let page = self.store.read_entries(&stream, ReadFrom::After(Seq(0)), 100).await.expect("it answers");
        let text = |body: &[u8]| String::from_utf8(body.to_vec()).expect("text");
        (counts.values.total(), page.entries.iter().map(|entry| text(&entry.body)).collect())
    }

    async fn count(&self, table: &str) -> i64 {
        let query = self.schema.sql(&format!("SELECT count(*) FROM weaver.{table}"));
        sqlx::query_scalar(query).fetch_one(self.store.pool()).await.expect("the server answers")
    }

    async fn done(self) {
        self.schema.drop(self.store.pool()).await;
    }
}

#[tokio::test]
async fn an_audit_entry_that_cannot_be_written_leaves_no_task() {
    let harness = Harness::new().await;
    let mut owner = harness.by_hand().await;
    let refuse = "ALTER TABLE weaver.pending_audit ADD CONSTRAINT refused CHECK (false)";
    owner.execute(harness.schema.sql(refuse)).await.expect("the table is there");
    harness.enqueue(1).await.expect_err("its entry is refused");
    harness.enqueue(3).await.expect_err("its entry is refused");
    assert_eq!(harness.contents().await, (0, vec![]));
    let admit = "ALTER TABLE weaver.pending_audit DROP CONSTRAINT refused";
    owner.execute(harness.schema.sql(admit)).await.expect("it is there");
    let id = harness.enqueue(1).await.expect("it is stored")[0].id;
    assert_eq!(harness.contents().await, (1, vec![format!("ada 1,{id},{id}")]));
    harness.done().await;
}

/// The connection ends after the tasks were inserted and before the commit, as when the process is killed.
#[tokio::test]
async fn an_enqueue_that_dies_at_its_audit_entry_leaves_neither() {
    let harness = Harness::new().await;
    let mut owner = harness.by_hand().await;
    let mut blocker = harness.by_hand().await;
    let mut open = blocker.begin().await.expect("the server answers");
    open.execute(harness.schema.sql("LOCK TABLE weaver.pending_audit IN EXCLUSIVE MODE"))
        .await
        .expect("it locks");
    let kill = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
         AND query LIKE '%{}.audit_enqueue%'",
        harness.schema.name
    );
    let killed = async {
        while owner.execute(sqlx::AssertSqlSafe(kill.clone())).await.expect("it answers").rows_affected() == 0
        {
            tokio::task::yield_now().await;
        }
    };
    let enqueued = {
        let mut enqueue = std::pin::pin!(harness.enqueue(5));
        let early = tokio::select! {
            enqueued = &mut enqueue => Some(enqueued),
            () = killed => None,
        };
        open.rollback().await.expect("the server answers");
        match early {
            Some(Ok(enqueued)) => panic!("its entry is not in its transaction: {enqueued:?}"),
            // The answer to the killed call may come before that to the killing one.
            Some(failed) => failed,
            None => enqueue.await,
        }
    };
    let (tasks, entries) = harness.contents().await;
    match enqueued {
        Err(_) => assert_eq!((tasks, entries.len()), (0, 0)),
        // The store has repeated the call on another connection: one entry, of its tasks.
        Ok(keys) => assert_eq!((tasks, entries), (5, vec![format!("ada 5,{},{}", keys[0].id, keys[4].id)])),
    }
    harness.done().await;
}

#[tokio::test]
async fn enqueues_of_a_namespace_do_not_wait_for_one_whose_transaction_is_open() {
    let harness = Harness::new().await;
    let mut owner = harness.by_hand().await;
    let mut open = owner.begin().await.expect("the server answers");
    let enqueue = "SELECT weaver.audit_enqueue(ARRAY[41]::bigint[], ARRAY['default'], 'open ', '')";
    open.execute(harness.schema.sql(enqueue)).await.expect("it is written");
    let done = tokio::time::timeout(Duration::from_secs(30), harness.enqueue(1)).await;
    let id = done.expect("it waits for no lock").expect("it is stored")[0].id;
    assert_eq!(harness.contents().await.1, [format!("ada 1,{id},{id}")]);
    open.commit().await.expect("it commits");
    // Numbered in the order of their commits: a reader has read the first one already.
    assert_eq!(harness.contents().await.1, [format!("ada 1,{id},{id}"), "open 1,41,41".to_owned()]);
    harness.done().await;
}

#[tokio::test]
async fn a_call_writes_one_entry_however_many_tasks_it_has_and_maintenance_numbers_it() {
    let harness = Harness::new().await;
    harness.enqueue(1000).await.expect("they are stored");
    assert_eq!((harness.count("pending_audit").await, harness.count("audit").await), (1, 0));
    harness.store.overdue(10).await.expect("it does maintenance");
    assert_eq!((harness.count("pending_audit").await, harness.count("audit").await), (0, 1));
    harness.done().await;
}

#[tokio::test]
async fn pending_entries_are_not_written_by_hand() {
    let harness = Harness::new().await;
    harness.enqueue(1).await.expect("it is stored");
    let mut owner = harness.by_hand().await;
    for statement in [
        "INSERT INTO weaver.pending_audit (namespace, at, body) VALUES ('default', now(), 'forged')",
        "UPDATE weaver.pending_audit SET body = 'forged'",
        "DELETE FROM weaver.pending_audit",
        "TRUNCATE weaver.pending_audit",
    ] {
        let refused = owner.execute(harness.schema.sql(statement)).await.expect_err(statement);
        assert!(refused.to_string().contains("is refused"), "{statement}: {refused}");
    }
    assert_eq!(harness.contents().await.1.len(), 1);
    harness.done().await;
}
