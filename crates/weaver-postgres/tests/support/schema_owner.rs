//! The owner of a schema who writes plain SQL.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::prelude::*;
use weaver_postgres::PostgresStore;

use super::Schema;

/// Session settings that might disable the guards.
const SETTINGS: [&str; 3] = [
    "SET weaver.moving = 'on'; SET weaver.purging = 'on'",
    "SET session_replication_role = replica",
    "SELECT 1",
];

/// The advisory lock under which tests change rights on parameters, which all databases of a server share.
const PARAMETER_RIGHTS: i64 = 727;

/// A store, its schema, and a connection of the schema's owner, who is no superuser.
pub(crate) struct SchemaOwner {
    pub(crate) schema: Schema,
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) connection: PgConnection,
}

impl SchemaOwner {
    pub(crate) async fn new() -> Self {
        let schema = Schema::new();
        let clock = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
        let store = Arc::new(store);
        let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
        // The owner may even change its session_replication_role: a superuser granted that. Under a lock:
        // rights on parameters belong to the whole server, and two first grants at once collide.
        let own = format!(
            "SELECT pg_advisory_xact_lock({PARAMETER_RIGHTS}); CREATE ROLE {0};
             GRANT SET ON PARAMETER session_replication_role TO {0}; ALTER SCHEMA {0} OWNER TO {0};
             DO $$ DECLARE t record; BEGIN
                 FOR t IN SELECT c.oid::regclass AS name, c.relkind FROM pg_class c
                     WHERE c.relnamespace = '{0}'::regnamespace AND c.relkind IN ('r', 'v', 'S') LOOP
                     EXECUTE format('ALTER %s %s OWNER TO {0}', CASE t.relkind WHEN 'v' THEN 'VIEW'
                         WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, t.name);
                 END LOOP; END $$;
             SET ROLE {0}",
            schema.name
        );
        sqlx::raw_sql(AssertSqlSafe(own)).execute(&mut connection).await.expect("a superuser may");
        Self { schema, store, connection }
    }

    pub(crate) async fn enqueue(&self) -> i64 {
        self.put(NewTask::new("t")).await
    }

    pub(crate) async fn put(&self, task: NewTask) -> i64 {
        let answers = self.store.enqueue_batch(vec![task]).await.expect("the store answers");
        answers[0].as_ref().expect("it is stored").key.id.0 as i64
    }

    /// Leases the next run.
    pub(crate) async fn lease(&self) -> Leased {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let token = LeaseToken(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
        let worker = WorkerId::new("w").expect("a name");
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        let leased = self.store.lease(LeaseRequest { max: 1, slots: 1, ..request }).await;
        leased.expect("the store answers").remove(0)
    }

    /// A shared lease of this many new tasks.
    pub(crate) async fn lease_of_many(&self, count: usize) -> Vec<Leased> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1_000_000);
        let queue = QueueName::new("many").expect("a name");
        let tasks = vec![NewTask::new("t").queue("many"); count];
        self.store.enqueue_batch(tasks).await.expect("the store answers");
        let token = LeaseToken(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
        let worker = WorkerId::new("w").expect("a name");
        let request = LeaseRequest::new(Namespace::default(), queue, worker, token);
        let (max, slots) = (count as u32, count as u32);
        self.store.lease(LeaseRequest { max, slots, ..request }).await.expect("the store answers")
    }

    /// Until the session with this process id waits for a lock.
    pub(crate) async fn until_blocked(&self, pid: i32) {
        let text = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
        loop {
            let blocked = sqlx::query_scalar(text).bind(pid).fetch_one(self.store.pool()).await;
            let blocked: i64 = blocked.expect("the server answers");
            if blocked > 0 {
                return;
            }
        }
    }

    pub(crate) async fn end(&self, leased: &Leased, outcome: Outcome) {
        let command = Command::Finish { lease: leased.lease.clone(), outcome };
        let end = decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease");
        let answers = self.store.commit(vec![end], None).await.expect("the store answers");
        assert!(matches!(answers[0], weaver_core::queue::Committed::Applied { .. }), "{answers:?}");
    }

    /// Whether the statement succeeded; a refused one must be refused by the guards, with a hint.
    pub(crate) async fn accepts(&mut self, text: &str) -> bool {
        match self.connection.execute(self.schema.sql(text)).await {
            Ok(done) => {
                assert!(done.rows_affected() > 0, "{text} touched nothing");
                true
            }
            Err(sqlx::Error::Database(error)) => {
                let error = error.downcast::<sqlx::postgres::PgDatabaseError>();
                // 55000: no trigger of a view fires in a session with the replication role replica, so it cannot be written.
                assert!(["23514", "23505", "55000"].contains(&error.code()), "{text}: {error}");
                assert!(error.hint().is_some(), "{text}: {error}");
                false
            }
            Err(error) => panic!("{text}: {error}"),
        }
    }

    /// Whether it changed a row; a statement that is refused, or finds none, did not.
    pub(crate) async fn changes(&mut self, text: &str) -> bool {
        let done = self.connection.execute(self.schema.sql(text)).await;
        done.is_ok_and(|done| done.rows_affected() > 0)
    }

    /// Asserts that it is refused under every session setting. With the replication role replica no trigger of a
    /// view fires: a statement on one is then without effect.
    pub(crate) async fn refused(&mut self, text: &str) {
        for setting in SETTINGS {
            let before = self.contents().await;
            sqlx::raw_sql(setting).execute(&mut self.connection).await.expect("it may be set");
            let accepted = self.accepts(text).await;
            sqlx::raw_sql("RESET session_replication_role")
                .execute(&mut self.connection)
                .await
                .expect("as before");
            let is_replica = setting.contains("replica") && text.contains("job_run");
            assert!(!accepted || is_replica && self.contents().await == before, "{text} after {setting}");
        }
    }

    async fn contents(&mut self) -> Option<String> {
        let text = "SELECT md5(string_agg(r::text, '' ORDER BY r.id)) FROM weaver.all_job_runs r";
        sqlx::query_scalar(self.schema.sql(text))
            .fetch_one(&mut self.connection)
            .await
            .expect("it can be read")
    }

    /// Puts a task in any state, past the guards. `members`: arguments of `jsonb_build_object`.
    pub(crate) async fn place(&mut self, id: i64, members: &str) {
        let text = format!(
            "DO $$ DECLARE r weaver.all_job_runs; BEGIN
                 SELECT * INTO r FROM weaver.all_job_runs a WHERE a.id = {id};
                 PERFORM weaver.take_out({id}, r.version, false);
                 r := jsonb_populate_record(r, jsonb_build_object({members}));
                 PERFORM weaver.put_in(r);
             END $$"
        );
        sqlx::raw_sql(self.schema.sql(&text)).execute(&mut self.connection).await.expect("its owner may");
    }

    pub(crate) fn key(id: u64) -> TaskKey {
        TaskKey::new(Namespace::default(), TaskId(id))
    }

    pub(crate) async fn done(mut self) {
        self.schema.drop(self.store.pool()).await;
        let drop_role = format!(
            "RESET ROLE; SELECT pg_advisory_xact_lock({PARAMETER_RIGHTS});
             REVOKE SET ON PARAMETER session_replication_role FROM {0}; DROP ROLE IF EXISTS {0}",
            self.schema.name
        );
        let _ = sqlx::raw_sql(AssertSqlSafe(drop_role)).execute(&mut self.connection).await;
    }
}
