//! The admission conditions in SQL are core's: both give the same answer on random facts, and the server
//! evaluates them through its indexes.

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use support::Schema;
use weaver_core::admission;
use weaver_core::admission::text::{Dialect, condition};
use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;
use weaver_postgres::PostgresStore;

const ROWS: usize = 5000;

#[derive(Debug, Clone)]
struct Facts {
    ready_at: i64,
    now: i64,
    expires_at: Option<i64>,
    executions: i32,
    paused: bool,
    occupied: i64,
    max_running: Option<i64>,
    losses: i32,
    max_losses: i32,
    slots: i32,
    other_id: i64,
    id: i64,
    begun: bool,
    waiting: bool,
}

/// Few values each, so that edge cases occur.
fn facts() -> impl Strategy<Value = Facts> {
    let times = (0..4_i64, 0..4_i64, proptest::option::of(0..4_i64), 0..2_i32);
    let queue = (any::<bool>(), 0..4_i64, proptest::option::of(1..4_i64));
    let losses = (0..2_i32, 0..2_i32, 0..2_i32);
    let key = (1..4_i64, 1..4_i64, any::<bool>(), any::<bool>());
    (times, queue, losses, key).prop_map(|(times, queue, losses, key)| {
        let ((ready_at, now, expires_at, executions), (paused, occupied, max_running)) = (times, queue);
        let ((losses, max_losses, slots), (other_id, id, begun, waiting)) = (losses, key);
        Facts {
            ready_at,
            now,
            expires_at,
            executions,
            paused,
            occupied,
            max_running,
            losses,
            max_losses,
            slots,
            other_id,
            id,
            begun,
            waiting,
        }
    })
}

/// Each rule over the columns of a row of facts.
const CONDITIONS: [(&str, &[&str]); 11] = [
    ("is_due", &["f.ready_at", "f.now"]),
    ("is_unstarted", &["f.executions"]),
    ("is_expired", &["f.executions = 0", "f.now", "f.expires_at"]),
    ("is_startable", &["f.ready_at", "f.executions = 0", "f.now", "f.expires_at"]),
    ("is_paused", &["f.paused"]),
    ("is_full", &["f.occupied", "f.max_running"]),
    ("is_open", &["f.paused", "f.occupied", "f.max_running"]),
    ("is_fragile", &["f.losses", "f.max_losses"]),
    ("fits_slots", &["f.losses > 0 OR f.max_losses = 0", "f.slots"]),
    ("has_begun", &["f.executions = 0", "f.waiting"]),
    ("goes_first", &["f.other_id", "f.paused", "f.waiting", "f.id", "f.begun"]),
];

fn answers(facts: &Facts) -> Vec<bool> {
    let [ready_at, now] = [facts.ready_at, facts.now].map(Timestamp::from_micros);
    let expires_at = facts.expires_at.map(Timestamp::from_micros);
    let unstarted = facts.executions == 0;
    let (occupied, max_running) = (facts.occupied.unsigned_abs(), facts.max_running.map(i64::unsigned_abs));
    let [losses, max_losses, slots] = [facts.losses, facts.max_losses, facts.slots].map(i32::unsigned_abs);
    let [other_id, id] = [facts.other_id, facts.id].map(|id| TaskId(id.unsigned_abs()));
    vec![
        admission::is_due(ready_at, now),
        admission::is_unstarted(facts.executions.unsigned_abs()),
        admission::is_expired(unstarted, now, expires_at),
        admission::is_startable(ready_at, unstarted, now, expires_at),
        admission::is_paused(facts.paused),
        admission::is_full(occupied, max_running),
        admission::is_open(facts.paused, occupied, max_running),
        admission::is_fragile(losses, max_losses),
        admission::fits_slots(losses > 0 || max_losses == 0, slots),
        admission::has_begun(unstarted, facts.waiting),
        admission::goes_first(other_id, facts.paused, facts.waiting, id, facts.begun),
    ]
}

fn all<T>(rows: &[Facts], value: impl Fn(&Facts) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

#[tokio::test]
async fn the_server_answers_as_core_does_whatever_the_facts_are() {
    let mut runner = TestRunner::default();
    let strategy = proptest::collection::vec(facts(), ROWS);
    let rows = strategy.new_tree(&mut runner).expect("facts can be drawn").current();
    let written = CONDITIONS.map(|(rule, arguments)| {
        condition(rule, arguments, Dialect::Sql).unwrap_or_else(|| panic!("{rule} has other facts"))
    });
    let question = format!(
        "SELECT ARRAY[{}] FROM (SELECT at(i.ready_at) AS ready_at, at(i.now) AS now, at(i.expires_at) AS expires_at,
            i.executions, i.paused, i.occupied, i.max_running, i.losses, i.max_losses, i.slots, i.other_id, i.id,
            i.begun, i.waiting, i.place
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::boolean[], $6::bigint[], $7::bigint[],
            $8::integer[], $9::integer[], $10::integer[], $11::bigint[], $12::bigint[], $13::boolean[], $14::boolean[])
            WITH ORDINALITY AS i (ready_at, now, expires_at, executions, paused, occupied, max_running, losses,
            max_losses, slots, other_id, id, begun, waiting, place)) f ORDER BY f.place",
        written.join(", ")
    );
    // Instants of the server, as its columns hold them.
    let question = question.replace("at(i.", "timestamptz 'epoch' + interval '1 microsecond' * (i.");
    let schema = Schema::new();
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    let found = sqlx::query(AssertSqlSafe(question))
        .bind(all(&rows, |row| row.ready_at))
        .bind(all(&rows, |row| row.now))
        .bind(all(&rows, |row| row.expires_at))
        .bind(all(&rows, |row| row.executions))
        .bind(all(&rows, |row| row.paused))
        .bind(all(&rows, |row| row.occupied))
        .bind(all(&rows, |row| row.max_running))
        .bind(all(&rows, |row| row.losses))
        .bind(all(&rows, |row| row.max_losses))
        .bind(all(&rows, |row| row.slots))
        .bind(all(&rows, |row| row.other_id))
        .bind(all(&rows, |row| row.id))
        .bind(all(&rows, |row| row.begun))
        .bind(all(&rows, |row| row.waiting))
        .fetch_all(&mut connection)
        .await
        .expect("the conditions are SQL");
    assert_eq!(found.len(), ROWS);
    for (row, answer) in rows.iter().zip(&found) {
        // No answer is NULL: a boolean each.
        let theirs: Vec<bool> = answer.get(0);
        let named = |answers: Vec<bool>| -> Vec<_> {
            CONDITIONS.iter().map(|(rule, _)| *rule).zip(answers).collect()
        };
        assert_eq!(named(theirs), named(answers(row)), "{row:?}");
    }
}

/// As the schema and the statements write them, and what the index is asked for.
#[tokio::test]
async fn what_is_due_and_what_has_expired_are_found_by_bounds_of_an_index() {
    let schema = Schema::new();
    let clock = Arc::new(weaver_runtime::SystemClock::new());
    let _store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    let startable = ["ready_at", "executions = 0", "now()", "expires_at"];
    let startable = condition("is_startable", &startable, Dialect::Sql).expect("it is a rule");
    let due = condition("is_due", &["ready_at", "now()"], Dialect::Sql).expect("it is a rule");
    let expired = ["executions = 0", "now()", "expires_at"];
    let expired = condition("is_expired", &expired, Dialect::Sql).expect("it is a rule");
    let lane = "namespace = 'default' AND queue = 'q' AND dispatch = 0 AND priority = 5";
    let questions = [
        (
            format!("{lane} AND {startable} ORDER BY ready_at, id LIMIT 10"),
            "ready_order",
            "ready_at <= now()",
        ),
        (format!("{lane} AND NOT {due} ORDER BY ready_at, id LIMIT 1"), "ready_order", "ready_at > now()"),
        (expired, "ready_expiring", "expires_at <= now()"),
    ];
    sqlx::raw_sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off")
        .execute(&mut connection)
        .await
        .expect("settings of a session");
    for (question, index, bound) in questions {
        let AssertSqlSafe(text) =
            schema.sql(&format!("EXPLAIN SELECT id FROM weaver.ready WHERE {question}"));
        let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(text))
            .fetch_all(&mut connection)
            .await
            .expect("it can be planned");
        let searched = plan.iter().any(|line| line.contains("Index Cond") && line.contains(bound));
        let plan = plan.join("\n");
        assert!(plan.contains(index) && searched && !plan.contains("Sort"), "{question}\n{plan}");
    }
}
