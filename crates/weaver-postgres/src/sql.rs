//! The text of every statement, with the configured schema's name.

use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::{Query, QueryScalar};
use sqlx::{AssertSqlSafe, FromRow, Postgres};

use crate::schema::with_rules;

/// The schema prefix that SQL texts in this crate are written with.
const SCHEMA_PREFIX: &str = "weaver.";

/// Replaces the schema prefix by the configured schema.
pub(crate) fn render(schema: &str, text: &str) -> String {
    if schema == "weaver" { text.to_owned() } else { text.replace(SCHEMA_PREFIX, &format!("{schema}.")) }
}

/// What a statement depends on besides its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatementOptions<'a> {
    pub(crate) schema: &'a str,
    /// Whether connections keep it as a named prepared statement: not behind a pooler in transaction mode.
    pub(crate) is_prepared: bool,
}

/// A statement, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    text: Arc<str>,
    is_prepared: bool,
}

impl Statement {
    pub(crate) fn new(statement_options: StatementOptions<'_>, text: &str) -> Self {
        Self {
            text: render(statement_options.schema, &with_rules(text)).into(),
            is_prepared: statement_options.is_prepared,
        }
    }

    /// A query that returns rows.
    pub(crate) fn query(&self) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(self.text()).persistent(self.is_prepared)
    }

    /// A query that returns one value per row.
    pub(crate) fn scalar<T>(&self) -> QueryScalar<'static, Postgres, T, PgArguments>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        sqlx::query_scalar(self.text()).persistent(self.is_prepared)
    }

    /// Safe: only the schema's name was interpolated, and it was checked when the options were parsed.
    fn text(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.text))
    }
}

/// The columns of a run in the order in which `row.rs` reads them.
macro_rules! run_columns {
    () => {
        "r.format, r.id, r.namespace, r.queue, r.task_type, r.state, r.scheduled, r.cause, r.version::bigint, r.renewals::bigint, r.attempt, \
         r.executions, r.failures::integer, r.losses::integer, r.priority, r.max_attempts::integer, \
         r.max_losses::integer, r.created_at, r.updated_at, \
         r.ready_at, r.first_started_at, r.finished_at, r.scheduled_for, r.expires_at, r.timeout_us, \
         r.leader_epoch, r.lease_token, r.lease_started_at, r.lease_expires_at, r.lease_ttl_us, \
         r.assigned_worker_id, r.assigned_at, r.assigned_epoch, r.continuation_check_deadline_at, r.outcome, \
         r.serial_key, r.idempotency_key, r.job_definition_id, r.task_group_id, r.session_id, r.retry_of, \
         r.labels::text, r.retry::text, r.trace::text, r.content_type, r.progress_fraction, r.progress_message, \
         r.last_error, r.result, r.payload, r.dispatch, \
         CASE WHEN r.attempt > 1 OR (r.attempt = 1 AND r.state NOT IN ('ASSIGNED', 'RUNNING') AND r.outcome IS NULL) \
         THEN (SELECT json_agg(json_build_array(c.attempt, c.assigned_worker_id, c.fence, \
         weaver.micros(c.started_at), weaver.micros(c.ended_at), c.outcome, c.error) ORDER BY c.attempt)::text \
         FROM (SELECT * FROM weaver.closed_attempts o WHERE o.run_id = r.id \
         ORDER BY o.attempt DESC LIMIT 20) c) END"
    };
}

/// Tasks by namespace and id, each through the indexes of its tables.
macro_rules! tasks_by_key {
    () => {
        " FROM unnest($1::text[], $2::bigint[]) AS i (namespace, id) CROSS JOIN LATERAL \
         (SELECT * FROM weaver.all_job_runs a WHERE a.id = i.id AND a.namespace = i.namespace OFFSET 0) r"
    };
}

/// The 29 arguments of `write_run`: a prefix and a number each.
macro_rules! run_values {
    ($before:literal) => {
        concat!(
            $before, "1", ", ", $before, "2", ", ", $before, "3", ", ", $before, "4", ", ", $before, "5",
            ", ", $before, "6", ", ", $before, "7", ", ", $before, "8", ", ", $before, "9", ", ", $before,
            "10", ", ", $before, "11", ", ", $before, "12", ", ", $before, "13", ", ", $before, "14", ", ",
            $before, "15", ", ", $before, "16", ", ", $before, "17", ", ", $before, "18", ", ", $before,
            "19", ", ", $before, "20", ", ", $before, "21", ", ", $before, "22", ", ", $before, "23", ", ",
            $before, "24", ", ", $before, "25", ", ", $before, "26", ", ", $before, "27", ", ", $before,
            "28", ", ", $before, "29",
        )
    };
}

/// The same, for statements that are built at run time.
pub(crate) const RUN_COLUMNS: &str = run_columns!();

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)+) => {
        /// Every statement that is sent repeatedly.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $($(#[$doc])* pub(crate) $name: Statement),+
        }

        impl Statements {
            pub(crate) fn new(statement_options: StatementOptions<'_>) -> Self {
                Self { $($name: Statement::new(statement_options, $text)),+ }
            }
        }
    };
}

statements! {
    clock = "SELECT weaver.clock()";
    notify = "SELECT pg_notify('weaver.work', $1)";
    incarnation = "SELECT nextval('weaver.move_numbers')";
    enqueue_uniform = "SELECT run_ids, is_open FROM weaver.enqueue_uniform($1, $2, $3, $4, $5, $6, \
        $7::text::jsonb, $8, $9)";
    enqueue_many = "SELECT weaver.enqueue_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
        $11::text[]::jsonb[], $12, $13)";
    /// The same with audit entries: the function in the SELECT list runs after the enqueue.
    enqueue_uniform_audited = "SELECT e.run_ids, e.is_open, weaver.audit_enqueue(e.run_ids, ARRAY[$1], \
        $10, $11) \
        FROM weaver.enqueue_uniform($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9) e";
    enqueue_many_audited = "SELECT e.ids, weaver.audit_enqueue(e.ids, $1, $14, $15) \
        FROM weaver.enqueue_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text[]::jsonb[], $12, $13) \
        AS e (ids)";
    number_audit = "SELECT weaver.number_audit($1)";
    claim = concat!("SELECT ", run_columns!(), " FROM \
        weaver.claim($1, $2, $3, $5, $7, $8, $9, $10, $11, $12) c \
        CROSS JOIN LATERAL weaver.start($1, $4, $5, $6, c.now, c.tids, c.limited) r");
    wait_probe = "SELECT ready, ready_in_us FROM weaver.wait_probe($1, $2, $3, $4, $5, $6, $7)";
    finish = "SELECT applied, frees FROM weaver.finish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    retry = "SELECT weaver.retry($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    complete = "SELECT weaver.complete($1, $2, $3, $4, $5, $6, $7)";
    renew = "SELECT weaver.renew($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    any_cancelled = "SELECT EXISTS (SELECT FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::uuid[]) \
        AS i (namespace, id, version, token) JOIN weaver.leases l ON l.first_id = i.id AND NOT l.is_shared \
        WHERE l.state = {number(cancelled)} AND l.version = i.version AND l.token = i.token AND l.namespace = i.namespace)";
    assignable = concat!("SELECT ", run_columns!(), " FROM weaver.assignable($1, $2, $3, $4, $5, $6) \
        WITH ORDINALITY AS i (id, place) CROSS JOIN LATERAL \
        (SELECT * FROM weaver.all_job_runs a WHERE a.id = i.id OFFSET 0) r ORDER BY i.place");
    assignments = concat!("SELECT ", run_columns!(), " FROM \
        (SELECT l.first_id, l.updated_at FROM weaver.leases l \
        WHERE l.state IN ({number(assigned)}, {number(orphaned)}) AND l.format BETWEEN 1 AND $2 \
        ORDER BY l.updated_at, l.first_id LIMIT $1) i \
        CROSS JOIN LATERAL (SELECT * FROM weaver.all_job_runs a WHERE a.id = i.first_id OFFSET 0) r \
        ORDER BY i.updated_at, i.first_id");
    is_assigned = "SELECT EXISTS (SELECT FROM weaver.leases l WHERE l.worker = $2 AND l.namespace = $1 \
        AND l.state = {number(assigned)} AND l.format BETWEEN 1 AND $3)";
    lock_tasks = "SELECT weaver.lock_tasks($1)";
    /// Those of these tasks whose lease row no other transaction has locked.
    unlocked_tasks = "SELECT weaver.unlocked($1, $2)";
    admission_facts = "SELECT paused, max_running, occupied, gated FROM weaver.admission_facts($1, $2, $3, $4, $5, $6)";
    write_runs = concat!("SELECT bool_and(weaver.write_run(", run_values!("i.c"), ")) FROM unnest(", run_values!("$"),
        ") AS i (", run_values!("c"), ")");
    confirm_stopped = "SELECT weaver.confirm_stopped($1, $2, $3, $4)";
    get = concat!("SELECT ", run_columns!(), tasks_by_key!());
    overdue = concat!("SELECT ", run_columns!(), " FROM weaver.overdue($1, $2, $3) AS i (id) CROSS JOIN LATERAL \
        (SELECT * FROM weaver.all_job_runs a WHERE a.id = i.id OFFSET 0) r");
    /// Tasks of formats this process does not know, live and finished.
    unknown_formats = "SELECT namespace, id FROM weaver.tasks WHERE format <> 1 AND format NOT BETWEEN 1 AND $1 LIMIT $2";
    release = "SELECT weaver.release($1, $2, $3, $4)";
    raw_run = "SELECT weaver.raw_run($1, $2)";
    discard = "SELECT answer, log_refs FROM weaver.discard($1, $2, $3)";
    changes = "SELECT s.now::text, (SELECT trimmed FROM weaver.run_counts_as_of) >= pg_snapshot_xmin($1::text::pg_snapshot), \
        m.at, m.ids, m.namespaces, m.versions::bigint[], m.states \
        FROM (SELECT pg_current_snapshot() AS now) s LEFT JOIN weaver.moves m \
        ON m.xid >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(m.xid, $1::text::pg_snapshot) \
        AND cardinality(m.ids) > 0 ORDER BY m.seq LIMIT $2";
    snapshot = "SELECT pg_current_snapshot()::text";
    counts = "SELECT queue, state, count FROM weaver.counts($1, $2) WHERE count <> 0";
    oldest_ready_at = "SELECT c.now, weaver.oldest_ready_at($1, $2, c.now) FROM weaver.clock() AS c (now)";
    ahead_of = "SELECT weaver.ahead_of($1, $2, $3)";
    groups = "SELECT g.id, g.states, g.counts, g.last_at FROM weaver.groups($1, $2, $3) g";
    queue_names = "SELECT DISTINCT queue FROM weaver.counts($1, NULL) WHERE count <> 0";
    queue_settings = "SELECT queue, paused, max_running, version, dispatch FROM weaver.queues \
        WHERE namespace = $1";
    occupied = "SELECT weaver.occupied($1, q.name) FROM unnest($2::text[]) WITH ORDINALITY AS q (name, place) \
        ORDER BY q.place";
    put_queue = "SELECT done, current FROM weaver.put_queue($1, $2, $3, $4, $5, $6, $7)";
    purge = "SELECT purged, log_refs FROM weaver.purge($1, $2, $3, $4, $5, $6)";
    bloated_tables = "SELECT relname::text FROM pg_stat_user_tables WHERE schemaname = $1 \
        AND relname IN ('tasks', 'ready', 'leases', 'ended', 'moves') AND n_dead_tup > greatest($2, n_live_tup / 2)";
    prune = "SELECT weaver.prune($1)";
    namespaces = "SELECT namespace FROM weaver.namespaces() AS n (namespace) WHERE namespace > $1 ORDER BY 1 LIMIT $2";
    heartbeat = "SELECT weaver.heartbeat($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    set_directive = "SELECT weaver.set_directive($1, $2, $3)";
    stop_runner = "UPDATE weaver.runners SET status = 'stopped' WHERE namespace = $1 AND runner_id = $2";
    list_runners = "SELECT runner_id, project_root, started_at, queues, types, capacity, running, draining, status, \
        directive, last_heartbeat, every_ms FROM weaver.runners WHERE namespace = $1 AND runner_id > $2 \
        AND last_heartbeat IS NOT NULL ORDER BY runner_id LIMIT $3";
}
