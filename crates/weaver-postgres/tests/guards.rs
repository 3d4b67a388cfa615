//! The guards: what the state machine does not allow is refused to hand-written SQL as well, whatever a session sets.

mod support;

use std::sync::Arc;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use support::Schema;
use weaver_core::lifecycle::{Command, decide};
use weaver_core::ports::{Admin, Journal, PurgeRule, StreamKey};
use weaver_core::prelude::*;
use weaver_core::projection::seed_004::State;
use weaver_core::task::Cause;
use weaver_postgres::{PostgresStore, allowed_moves, guard_triggers};

/// What a session might set in the hope to get past the guards.
const SETTINGS: [&str; 3] = [
    "SET weaver.moving = 'on'; SET weaver.purging = 'on'",
    "SET session_replication_role = replica",
    "SELECT 1",
];

/// A store, its schema, and a connection of the schema's owner, who is no superuser and writes SQL by hand.
struct Hand {
    schema: Schema,
    store: Arc<PostgresStore>,
    connection: PgConnection,
}

impl Hand {
    async fn new() -> Self {
        let schema = Schema::new();
        let clock = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
        let store = Arc::new(store);
        let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
        // The owner may even change the role of its session: a superuser allowed that.
        let own = format!(
            "CREATE ROLE {0}; GRANT SET ON PARAMETER session_replication_role TO {0}; ALTER SCHEMA {0} OWNER TO {0};
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

    async fn enqueue(&self) -> i64 {
        self.put(NewTask::new("t")).await
    }

    async fn put(&self, task: NewTask) -> i64 {
        let answers = self.store.enqueue_batch(vec![task]).await.expect("the store answers");
        answers[0].as_ref().expect("it is stored").key.id.0 as i64
    }

    /// Leases the next run.
    async fn lease(&self) -> Leased {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let token = LeaseToken(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
        let worker = WorkerId::new("w").expect("a name");
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        let leased = self.store.lease(LeaseRequest { max: 1, slots: 1, ..request }).await;
        leased.expect("the store answers").remove(0)
    }

    async fn end(&self, leased: &Leased, outcome: Outcome) {
        let command = Command::Finish { lease: leased.lease.clone(), outcome };
        let end = decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease");
        let answers = self.store.commit(vec![end], None).await.expect("the store answers");
        assert!(matches!(answers[0], weaver_core::queue::Committed::Applied { .. }), "{answers:?}");
    }

    /// Whether the statement was done; refused ones must be refused by the guards, and say what to do.
    async fn does(&mut self, text: &str) -> bool {
        match self.connection.execute(self.schema.sql(text)).await {
            Ok(done) => {
                assert!(done.rows_affected() > 0, "{text} touched nothing");
                true
            }
            Err(sqlx::Error::Database(error)) => {
                let error = error.downcast::<sqlx::postgres::PgDatabaseError>();
                assert!(["23514", "23505"].contains(&error.code()), "{text}: {error}");
                assert!(error.hint().is_some(), "{text}: {error}");
                false
            }
            Err(error) => panic!("{text}: {error}"),
        }
    }

    /// Refused, whatever the session has set.
    async fn refused(&mut self, text: &str) {
        for setting in SETTINGS {
            sqlx::raw_sql(setting).execute(&mut self.connection).await.expect("it may be set");
            assert!(!self.does(text).await, "{text} after {setting}");
            sqlx::raw_sql("RESET session_replication_role")
                .execute(&mut self.connection)
                .await
                .expect("as before");
        }
    }

    /// Past the guards, as only a superuser or the owner with DISABLE TRIGGER gets.
    async fn force(&mut self, text: &str) {
        let text = format!(
            "ALTER TABLE weaver.job_runs DISABLE TRIGGER USER; {text}; ALTER TABLE weaver.job_runs ENABLE TRIGGER USER"
        );
        sqlx::raw_sql(self.schema.sql(&text)).execute(&mut self.connection).await.expect("its owner may");
        for trigger in guard_triggers(&self.schema.name).iter().filter(|trigger| trigger.table == "job_runs")
        {
            self.connection.execute(AssertSqlSafe(trigger.enable.clone())).await.expect("its owner may");
        }
    }

    async fn done(mut self) {
        self.schema.drop(self.store.pool()).await;
        let gone = format!(
            "RESET ROLE; REVOKE SET ON PARAMETER session_replication_role FROM {0}; DROP ROLE IF EXISTS {0}",
            self.schema.name
        );
        let _ = sqlx::raw_sql(AssertSqlSafe(gone)).execute(&mut self.connection).await;
    }
}

/// A lease, as columns.
const LEASE: &str = "assigned_worker_id = 'w', lease_token = gen_random_uuid(), lease_started_at = now(), \
     lease_expires_at = now() + interval '30 seconds', lease_ttl_us = 30000000";
/// None, as columns.
const NO_LEASE: &str = "lease_token = NULL, lease_started_at = NULL, lease_expires_at = NULL, lease_ttl_us = NULL, \
     leader_epoch = NULL";
const NO_ASSIGNMENT: &str = "assigned_worker_id = NULL, assigned_at = NULL, assigned_epoch = NULL";

/// The columns a run of a state has besides it.
fn columns(state: State) -> String {
    match state {
        State::Running => {
            format!("{LEASE}, first_started_at = coalesce(first_started_at, now()), cause = NULL")
        }
        State::Assigned => {
            format!(
                "{NO_LEASE}, cause = NULL, assigned_worker_id = 'w', assigned_at = now(), assigned_epoch = 1"
            )
        }
        State::Pending | State::Orphaned => format!("{NO_LEASE}, {NO_ASSIGNMENT}, cause = NULL"),
        State::RetryScheduled => format!("{NO_LEASE}, {NO_ASSIGNMENT}, cause = 'failed'"),
        State::Succeeded => format!("{NO_LEASE_ENDED}, cause = NULL"),
        State::Failed => format!("{NO_LEASE_ENDED}, cause = 'failed'"),
        State::TimedOut => format!("{NO_LEASE_ENDED}, cause = 'timed_out'"),
        State::Canceled => format!("{NO_LEASE_ENDED}, cause = 'user'"),
    }
}

const NO_LEASE_ENDED: &str = "lease_token = NULL, lease_expires_at = NULL, lease_ttl_us = NULL, leader_epoch = NULL, \
     assigned_at = NULL, assigned_epoch = NULL, finished_at = now()";

#[tokio::test]
async fn every_pair_of_states_is_allowed_or_refused_as_core_has_it() {
    let mut hand = Hand::new().await;
    let allowed = allowed_moves();
    for from in State::ALL {
        for to in State::ALL {
            let id = hand.put(NewTask::new("t").delay(Duration::from_secs(60))).await;
            let put = format!(
                "UPDATE weaver.job_runs SET version = 7, {}, state = '{from}' WHERE id = {id}",
                columns(*from)
            );
            hand.force(&put).await;
            let mut moved = false;
            // With every charge there is: one of them is right, if the move is allowed.
            for charges in [[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0; 4]] {
                for cause in ["", "cause = 'lost', "] {
                    // The cause is set twice otherwise.
                    let set = columns(*to);
                    let set = if cause.is_empty() { set } else { set.replace("cause = ", "log_ref = ") };
                    let start = match (from, to) {
                        (State::Assigned, State::Running) => ", leader_epoch = assigned_epoch",
                        _ => "",
                    };
                    let text = format!(
                        "UPDATE weaver.job_runs SET state = '{to}', version = 8, {cause}attempt = attempt + {}, \
                         executions = executions + {}, failures = failures + {}, losses = losses + {}, {set}{start} \
                         WHERE id = {id}",
                        charges[0], charges[1], charges[2], charges[3]
                    );
                    moved = moved || hand.does(&text).await;
                }
            }
            assert_eq!(moved, allowed.contains(&(*from, *to)), "{from} -> {to}");
        }
    }
    hand.done().await;
}

#[tokio::test]
async fn a_move_charges_what_the_table_says_and_its_version_grows_by_one() {
    let mut hand = Hand::new().await;
    let id = hand.enqueue().await;
    let start = format!("UPDATE weaver.job_runs SET state = 'RUNNING', first_started_at = now(), {LEASE}");
    for change in [
        "attempt = 1, executions = 1",
        "version = 3, attempt = 1, executions = 1",
        "version = 2",
        "version = 2, attempt = 1",
        "version = 2, attempt = 2, executions = 1",
        "version = 2, attempt = 1, executions = 1, losses = 1",
        "version = 2, attempt = 1, executions = 1, failures = 1",
        "version = 2, attempt = 1, executions = 1, renewals = 1",
        "version = 2, attempt = 1, executions = 1, cause = 'lost'",
        "version = 2, attempt = 1, executions = 1, ready_at = ready_at - interval '1 second'",
    ] {
        hand.refused(&format!("{start}, {change} WHERE id = {id}")).await;
    }
    assert!(hand.does(&format!("{start}, version = 2, attempt = 1, executions = 1 WHERE id = {id}")).await);
    hand.done().await;
}

#[tokio::test]
async fn a_run_cannot_run_without_a_whole_lease_or_wait_with_one() {
    let mut hand = Hand::new().await;
    let id = hand.enqueue().await;
    let start = "UPDATE weaver.job_runs SET state = 'RUNNING', version = 2, attempt = 1, executions = 1, \
         first_started_at = now()";
    hand.refused(&format!("{start} WHERE id = {id}")).await;
    for missing in LEASE.split(", ").filter(|part| part.contains(" = ") && !part.starts_with("interval")) {
        let column = missing.split(' ').next().expect("a column");
        let half = LEASE.replace(missing, &format!("{column} = NULL"));
        hand.refused(&format!("{start}, {half} WHERE id = {id}")).await;
    }
    hand.refused(&format!("UPDATE weaver.job_runs SET {LEASE} WHERE id = {id}")).await;
    let assign = "UPDATE weaver.job_runs SET state = 'ASSIGNED', version = 2, attempt = 1";
    hand.refused(&format!("{assign} WHERE id = {id}")).await;
    hand.refused(&format!("{assign}, assigned_worker_id = 'w', assigned_at = now() WHERE id = {id}")).await;
    hand.refused(&format!(
        "UPDATE weaver.job_runs SET state = 'CANCELED', cause = 'user', version = 2 WHERE id = {id}"
    ))
    .await;
    hand.done().await;
}

#[tokio::test]
async fn what_a_run_was_enqueued_with_never_changes() {
    let mut hand = Hand::new().await;
    let id = hand.enqueue().await;
    for change in [
        "id = id + 1000",
        "namespace = 'other'",
        "queue = 'other'",
        "task_type = 'other'",
        "payload = ''",
        "priority = 0",
        "serial_key = 'k'",
        "idempotency_key = 'k'",
        "max_attempts = 1",
        "max_losses = 0",
        "labels = '{}'",
        "retry = NULL",
        "timeout_us = 1",
        "expires_at = now()",
        "created_at = now()",
        "scheduled = true",
        "scheduled_for = now()",
        "job_definition_id = 'd'",
        "retry_of = 1",
    ] {
        hand.refused(&format!("UPDATE weaver.job_runs SET {change} WHERE id = {id}")).await;
    }
    hand.done().await;
}

#[tokio::test]
async fn owner_epoch_attempt_lease_and_due_time_do_not_change_without_a_move() {
    let mut hand = Hand::new().await;
    hand.enqueue().await;
    let leased = hand.lease().await;
    let id = leased.lease.key.id;
    for change in [
        "assigned_worker_id = 'thief'",
        "leader_epoch = 9",
        "assigned_epoch = 9",
        "attempt = 2",
        "executions = 2",
        "failures = 1",
        "losses = 1",
        "lease_token = gen_random_uuid()",
        "lease_ttl_us = 1",
        "lease_started_at = now() - interval '1 day'",
        "lease_expires_at = now() + interval '1 day'",
        "lease_expires_at = NULL, renewals = renewals + 1",
        "assigned_worker_id = 'thief', renewals = renewals + 1",
        "renewals = renewals + 2",
        "renewals = 0, progress_message = 'x'",
        "ready_at = now()",
        "updated_at = now()",
        "first_started_at = now()",
        "finished_at = now()",
        "state = 'PENDING'",
        "result = '42'",
        "last_error = 'x'",
    ] {
        hand.refused(&format!("UPDATE weaver.job_runs SET {change} WHERE id = {id}")).await;
    }
    let renewal =
        "renewals = renewals + 1, lease_expires_at = now() + interval '1 minute', progress_fraction = 0.5";
    assert!(hand.does(&format!("UPDATE weaver.job_runs SET {renewal} WHERE id = {id}")).await);
    hand.store.cancel(&leased.lease.key).await.expect("it runs");
    // Its hold: not extended, not changed, not half removed.
    for change in
        ["lease_ttl_us = NULL", "renewals = renewals + 1", "lease_expires_at = now() + interval '1 day'"]
    {
        hand.refused(&format!("UPDATE weaver.job_runs SET {change} WHERE id = {id}")).await;
    }
    hand.done().await;
}

#[tokio::test]
async fn live_runs_are_not_removed_by_hand() {
    let mut hand = Hand::new().await;
    for _ in 0..3 {
        hand.enqueue().await;
    }
    let running = hand.lease().await.lease.key.id;
    let held = hand.lease().await.lease.key;
    hand.store.cancel(&held).await.expect("it runs");
    for text in [
        "DELETE FROM weaver.job_runs".to_owned(),
        "DELETE FROM weaver.job_runs WHERE state = 'PENDING'".to_owned(),
        format!("DELETE FROM weaver.job_runs WHERE id = {running}"),
        format!("DELETE FROM weaver.job_runs WHERE id = {}", held.id),
        "TRUNCATE weaver.job_runs".to_owned(),
        "INSERT INTO weaver.departures VALUES (pg_current_xact_id(), 0, 0)".to_owned(),
    ] {
        hand.refused(&text).await;
    }
    hand.done().await;
}

#[tokio::test]
async fn history_attempts_and_audit_cannot_be_rewritten_or_removed_by_hand() {
    let mut hand = Hand::new().await;
    hand.enqueue().await;
    hand.end(&hand.lease().await, Outcome::failed("x")).await;
    let run_now = hand.store.run_now(&hand.key(1)).await;
    run_now.expect("it waits");
    hand.end(&hand.lease().await, Outcome::DONE).await;
    let audit = StreamKey { namespace: Namespace::default(), name: "audit".to_owned() };
    hand.store.append_entries(&audit, &["entry".into()]).await.expect("the store answers");
    for text in [
        "UPDATE weaver.job_run_history SET state = 'FAILED'",
        "UPDATE weaver.job_run_history SET version = version + 1",
        "UPDATE weaver.job_run_history SET finished_at = now()",
        "UPDATE weaver.job_run_history SET payload = '', task_type = 'other'",
        "UPDATE weaver.job_run_history SET failures = 0",
        "DELETE FROM weaver.job_run_history",
        "TRUNCATE weaver.job_run_history",
        "UPDATE weaver.closed_attempts SET outcome = 'succeeded'",
        "DELETE FROM weaver.closed_attempts",
        "TRUNCATE weaver.closed_attempts",
        "INSERT INTO weaver.closed_attempts VALUES ('default', 1, 9, 'w', 1, now(), now(), 'failed', NULL)",
        "UPDATE weaver.audit SET body = ''",
        "DELETE FROM weaver.audit",
        "TRUNCATE weaver.audit",
        "INSERT INTO weaver.audit VALUES ('default', 'audit', 99, now(), '')",
    ] {
        hand.refused(text).await;
    }
    assert!(hand.does("UPDATE weaver.job_run_history SET log_ref = 'elsewhere'").await);
    hand.done().await;
}

impl Hand {
    fn key(&self, id: u64) -> TaskKey {
        TaskKey::new(Namespace::default(), TaskId(id))
    }
}

/// A copy of a live run as if it had succeeded, with something changed.
fn forged(source: &str, columns: &str, values: &str) -> String {
    format!(
        "INSERT INTO weaver.job_run_history (id, version, renewals, created_at, ready_at, finished_at, attempt, \
         executions, failures, losses, max_attempts, max_losses, priority, scheduled, state, outcome, \
         continuation_state, namespace, queue, task_type, assigned_worker_id, first_started_at, lease_started_at, \
         payload{columns}) SELECT id, version + 1, renewals, created_at, ready_at, now(), attempt, executions, \
         failures, losses, max_attempts, max_losses, priority, scheduled, 'SUCCEEDED', 'succeeded', 'NONE', \
         namespace, queue, task_type, assigned_worker_id, first_started_at, lease_started_at, {values} FROM {source}"
    )
}

#[tokio::test]
async fn only_what_was_live_enters_history_and_as_it_was() {
    let mut hand = Hand::new().await;
    hand.enqueue().await;
    let id = hand.lease().await.lease.key.id;
    let live = format!("weaver.job_runs WHERE id = {id}");
    // Still live; never live; live, but another; live, but with a cause that no success has.
    hand.refused(&forged(&live, "", "payload")).await;
    hand.refused(&forged(&live, "", "payload").replace("SELECT id,", "SELECT id + 1000,")).await;
    let gone = format!("WITH gone AS (DELETE FROM {live} RETURNING *) ");
    for (columns, values) in
        [("", "'other'::bytea"), (", cause", "payload, 'lost'"), (", last_error", "payload, 'x'")]
    {
        let text = format!("{gone}{}", forged("gone", columns, values));
        let text =
            if columns == ", last_error" { text.replace("version + 1,", "version + 2,") } else { text };
        hand.refused(&text).await;
    }
    // And that is all: what Weaver itself does is done.
    assert!(hand.does(&format!("{gone}{}", forged("gone", "", "payload"))).await);
    hand.done().await;
}

#[tokio::test]
async fn finished_runs_are_removed_by_purges_that_are_on_record() {
    let mut hand = Hand::new().await;
    for _ in 0..2 {
        hand.enqueue().await;
        hand.end(&hand.lease().await, Outcome::DONE).await;
    }
    let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
    assert_eq!(hand.store.purge_tasks(rule, 1).await.expect("the store answers").count, 1);
    // By hand with an announcement, in one transaction; and not in the next.
    let by_hand = "INSERT INTO weaver.purges (what) VALUES ('by hand'); DELETE FROM weaver.job_run_history";
    sqlx::raw_sql(hand.schema.sql(by_hand)).execute(&mut hand.connection).await.expect("it is announced");
    hand.enqueue().await;
    hand.end(&hand.lease().await, Outcome::DONE).await;
    hand.refused("DELETE FROM weaver.job_run_history").await;
    for text in ["UPDATE weaver.purges SET what = ''", "DELETE FROM weaver.purges", "TRUNCATE weaver.purges"]
    {
        hand.refused(text).await;
    }
    let purges: Vec<String> =
        sqlx::query_scalar(hand.schema.sql("SELECT what FROM weaver.purges ORDER BY at"))
            .fetch_all(&mut hand.connection)
            .await
            .expect("it is there");
    assert_eq!(purges, ["1 finished runs", "by hand"]);
    hand.done().await;
}

/// A run by hand, with something added.
fn inserted(columns: &str, values: &str) -> String {
    format!(
        "INSERT INTO weaver.job_runs (id, version, renewals, created_at, updated_at, ready_at, attempt, executions, \
         failures, losses, max_attempts, max_losses, priority, scheduled, state, continuation_state, namespace, queue, \
         task_type, payload{columns}) SELECT nextval('weaver.job_run_ids'), 1, 0, now(), now(), now(), 0, 0, 0, 0, 5, \
         3, 5, false, 'PENDING', 'NONE', 'default', 'default', 't', 'null'{values}"
    )
}

#[tokio::test]
async fn a_run_enters_by_hand_only_as_a_well_formed_pending_one() {
    let mut hand = Hand::new().await;
    for (from, to) in [
        ("'PENDING'", "'RUNNING'"),
        ("'PENDING'", "'SUCCEEDED'"),
        ("SELECT nextval('weaver.job_run_ids'), 1", "SELECT nextval('weaver.job_run_ids'), 2"),
        ("0, 0, 0, 0, 5", "1, 0, 0, 0, 5"),
        ("0, 0, 0, 0, 5", "0, 0, 0, 0, 0"),
        ("0, 0, 0, 0, 5", "0, 0, 0, 0, 10001"),
        ("3, 5, false", "-1, 5, false"),
        ("3, 5, false", "3, 10, false"),
        ("3, 5, false", "3, 5, true"),
        ("'default', 'default', 't'", "'default', '', 't'"),
        ("'default', 'default', 't'", "'default', repeat('q', 256), 't'"),
        ("'NONE'", "'CONFIRMING'"),
    ] {
        let text = inserted("", "").replace(from, to);
        assert_ne!(text, inserted("", ""), "{from}");
        hand.refused(&text).await;
    }
    for (column, value) in [
        (", lease_token", ", gen_random_uuid()"),
        (", assigned_worker_id", ", 'w'"),
        (", finished_at", ", now()"),
        (", result", ", ''::bytea"),
    ] {
        hand.refused(&inserted(column, value)).await;
    }
    assert!(hand.does(&inserted("", "")).await);
    assert_eq!(hand.lease().await.record.attempt, 1, "it is a run like any other");
    hand.done().await;
}

#[tokio::test]
async fn a_schedule_has_one_run_per_instant_whether_the_first_is_live_or_finished() {
    let mut hand = Hand::new().await;
    let at = "timestamptz '2026-01-31 09:30:00+00'";
    let run = inserted(", job_definition_id, scheduled_for", &format!(", 'd', {at}"));
    assert!(hand.does(&run).await);
    hand.refused(&run).await;
    hand.end(&hand.lease().await, Outcome::DONE).await;
    hand.refused(&run).await;
    let instant: Timestamp = "2026-01-31T09:30:00Z".parse().expect("an instant");
    let again = NewTask::new("t").job_definition_id("d").scheduled_for(instant);
    let answers = hand.store.enqueue_batch(vec![again]).await.expect("the store answers");
    assert!(
        answers[0].as_ref().expect("it is answered").existing,
        "Weaver finds the one that was put in by hand"
    );
    for text in [
        "DELETE FROM weaver.schedule_keys",
        "UPDATE weaver.schedule_keys SET run_id = 99",
        "TRUNCATE weaver.schedule_keys",
    ] {
        hand.refused(text).await;
    }
    let keyed = inserted(", idempotency_key", ", 'k'");
    assert!(hand.does(&keyed).await);
    hand.refused(&keyed).await;
    hand.done().await;
}

#[tokio::test]
async fn a_run_that_runs_without_a_whole_lease_is_explained_and_released_by_maintenance() {
    use weaver_runtime::WorkSource;
    let mut hand = Hand::new().await;
    for broken in [
        "assigned_worker_id = NULL, lease_token = NULL, lease_started_at = NULL, lease_expires_at = NULL, \
         lease_ttl_us = NULL",
        "lease_token = NULL",
        "lease_expires_at = NULL",
        "lease_ttl_us = NULL, leader_epoch = 7",
        "assigned_worker_id = NULL",
    ] {
        hand.enqueue().await;
        let leased = hand.lease().await;
        let key = leased.lease.key.clone();
        hand.force(&format!("UPDATE weaver.job_runs SET {broken} WHERE id = {}", key.id)).await;
        let explained = weaver_core::explain::explain(&*hand.store, &key).await.expect("it is there");
        assert!(
            explained.to_string().contains("running without a lease; maintenance releases it"),
            "{explained}"
        );
        // Beside a whole lease: that is renewed.
        hand.enqueue().await;
        let healthy = hand.lease().await;
        let renewals = [&leased, &healthy].map(|each| weaver_core::lease::Renewal::of(each.lease.clone()));
        let renewed = hand.store.renew(renewals.to_vec()).await.expect("one bad row does not stop the other");
        assert_eq!(renewed[1], weaver_core::lease::Renewed::Extended, "{broken}");
        let done = weaver_runtime::LocalSource::new(hand.store.clone()).maintain().await.expect("it answers");
        assert_eq!(done, weaver_runtime::Maintained { lost: 1, ..Default::default() }, "{broken}");
        hand.end(&healthy, Outcome::DONE).await;
        let found = hand.store.get_task(&key).await.expect("it is there");
        assert_eq!((found.state, found.cause), (TaskState::RetryScheduled, Some(Cause::Lost)), "{broken}");
        assert_eq!((found.losses, found.attempt), (1, 1));
        let again = hand.lease().await;
        assert_eq!(again.lease.key, key, "it is leased again");
        hand.end(&again, Outcome::DONE).await;
    }
    hand.done().await;
}
