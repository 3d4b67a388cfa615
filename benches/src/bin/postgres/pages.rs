//! Counts and first pages among five million finished tasks.

use std::time::Instant;

use tokio::runtime::Runtime;
use weaver_benches::{ROUNDS, Samples};
use weaver_core::name::{SessionId, TaskGroupId};
use weaver_core::ports::{Scope, Selector, TaskQuery, Tasks};
use weaver_core::prelude::*;

use crate::server::Server;
use crate::weaver;

const FINISHED: usize = 5_000_000;
const LIMIT_MS: f64 = 20.0;

/// Finished tasks of 50 queues, 20 types and 1,000 groups and sessions; one in a hundred is dead, one in ten
/// has a label.
const FILL: &str = "WITH new AS (INSERT INTO weaver.tasks (id, created_at, max_attempts, max_losses, priority, namespace, queue, \
    task_type, task_group_id, session_id, labels, payload) \
    SELECT nextval('weaver.job_run_ids'), now() - ($N - i) * interval '10 ms', 5, 3, 5, 'default', 'q' || i % 50, 't' || i % 20, \
    CASE WHEN i % 5 = 0 THEN 'g' || i % 1000 END, CASE WHEN i % 5 = 0 THEN 's' || i % 1000 END, \
    CASE WHEN i % 10 = 0 THEN jsonb_build_object('k', 'v' || i % 1000) END, decode(repeat('78', 100), 'hex') \
    FROM generate_series(1, $N) AS i RETURNING id, created_at, queue, labels), \
    labelled AS (INSERT INTO weaver.task_labels SELECT 'default', weaver.label(l.key, l.value), n.id \
    FROM new n CROSS JOIN LATERAL jsonb_each_text(n.labels) l WHERE n.labels IS NOT NULL) \
    INSERT INTO weaver.ended (id, finished_at, started_at, version, attempt, failures, state, namespace, queue, worker, cause, \
    outcome) SELECT id, created_at, created_at, 3, 1, CASE WHEN id % 100 = 0 THEN 1 END, CASE WHEN id % 100 = 0 THEN 7 ELSE 6 END, \
    'default', queue, 'w', CASE WHEN id % 100 = 0 THEN 'failed' END, CASE WHEN id % 100 = 0 THEN 'failed' END FROM new";
const COUNT: &str = "INSERT INTO weaver.run_counts SELECT namespace, queue, state, count(*) \
    FROM weaver.ended GROUP BY 1, 2, 3; ANALYZE";
/// Only the functions of Weaver write its tables.
const UNGUARDED: &str = "ALTER TABLE weaver.tasks DISABLE TRIGGER USER; ALTER TABLE weaver.ended DISABLE TRIGGER USER; \
    ALTER TABLE weaver.task_labels DISABLE TRIGGER USER";

pub fn run(runtime: &Runtime, server: &Server) -> bool {
    let store = weaver::open(runtime, server);
    server.say(runtime, "weaver", UNGUARDED);
    server.say(runtime, "weaver", &FILL.replace("$N", &FINISHED.to_string()));
    runtime.block_on(async {
        let mut connection = server.connect("weaver").await;
        sqlx::raw_sql(COUNT).execute(&mut connection).await.expect("the server answers");
        // As autovacuum would do eventually.
        sqlx::raw_sql("VACUUM weaver.tasks, weaver.ended")
            .execute(&mut connection)
            .await
            .expect("the server answers");
    });
    let size = server.ask(
        runtime,
        "weaver",
        "SELECT pg_total_relation_size('weaver.tasks') + pg_total_relation_size('weaver.ended')",
    );
    println!("       {FINISHED} finished runs take {} MiB with their indexes", size / 1048576);
    let mut ok = time("counts of the namespace", || {
        let counts = runtime.block_on(store.counts(Scope::Namespace(Namespace::default())));
        assert_eq!(counts.expect("the store answers").values.get(TaskState::Dead) as usize, FINISHED / 100);
    });
    for (what, selector) in selectors() {
        ok &= time(&format!("first page of 50, by {what}"), || {
            let query =
                TaskQuery { selector: selector.clone(), limit: 50, ..TaskQuery::new(Namespace::default()) };
            let page = runtime.block_on(store.list_tasks(query)).expect("the store answers");
            assert_eq!(page.items.len(), 50, "a whole page by {what}");
        });
    }
    ok
}

fn selectors() -> Vec<(&'static str, Selector)> {
    let text = |text: &str| text.to_owned();
    vec![
        ("nothing", Selector::All),
        ("state", Selector::State(TaskState::Succeeded)),
        ("a rare state", Selector::State(TaskState::Dead)),
        ("type", Selector::Type(TaskType::new("t7").expect("a name"))),
        ("queue", Selector::Queue(QueueName::new("q7").expect("a name"))),
        ("group", Selector::Group(TaskGroupId::new("g5").expect("a name"))),
        ("session", Selector::Session(SessionId::new("s5").expect("a name"))),
        ("label", Selector::Label(text("k"), text("v10"))),
    ]
}

fn time(what: &str, mut call: impl FnMut()) -> bool {
    call();
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        call();
        samples.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let (half, most) = (samples.median(), samples.quantile(1.0));
    let holds = most < LIMIT_MS;
    println!(
        "  {} {what}: {half:.1} ms, at most {most:.1} ms (limit < {LIMIT_MS})",
        if holds { "ok  " } else { "MISS" }
    );
    holds
}
