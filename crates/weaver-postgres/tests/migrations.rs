//! Nodes that start together migrate the schema once, and an old binary refuses a newer schema.

mod support;

use std::sync::Arc;

use support::Schema;
use weaver_postgres::{OpenError, PostgresStore, SCHEMA_VERSION};

#[tokio::test]
async fn nodes_that_start_together_migrate_once() {
    let schema = Schema::new();
    let open = || PostgresStore::open(schema.options(), Arc::new(weaver_runtime::SystemClock::new()));
    let (one, two, three, four) = tokio::join!(open(), open(), open(), open());
    let stores = [one, two, three, four].map(|store| store.expect("each opens"));
    let steps: i64 = sqlx::query_scalar(schema.sql("SELECT count(*) FROM weaver.migrations"))
        .fetch_one(stores[0].pool())
        .await
        .expect("the table is there");
    assert_eq!(steps, i64::from(SCHEMA_VERSION));
    schema.drop(stores[0].pool()).await;
}

#[tokio::test]
async fn a_dry_run_lists_pending_migrations_and_applies_none() {
    let schema = Schema::new();
    for _ in 0..2 {
        let planned = PostgresStore::migrate(&schema.options(), true).await.expect("the server answers");
        assert_eq!((planned.before, planned.steps.len()), (0, SCHEMA_VERSION as usize));
        assert!(planned.steps[0].sql.contains(&format!("CREATE VIEW {}.job_runs", schema.name)));
    }
    let mut options = schema.options();
    options.migrate = false;
    let refused = PostgresStore::open(options, Arc::new(weaver_runtime::SystemClock::new())).await;
    assert!(matches!(refused, Err(OpenError::Older { found: 0, .. })), "{refused:?}");
}

#[tokio::test]
async fn the_first_migration_creates_every_table_of_the_seed_and_logs_apart() {
    let schema = Schema::new();
    let clock = Arc::new(weaver_runtime::SystemClock::new());
    let store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
    let text = "SELECT c.table_name || '.' || c.column_name FROM information_schema.columns c
                JOIN information_schema.tables t USING (table_schema, table_name)
                WHERE c.table_schema = $1";
    let columns: Vec<String> = sqlx::query_scalar(text)
        .bind(&schema.name)
        .fetch_all(store.pool())
        .await
        .expect("the catalogue answers");
    let of = |table: &str| {
        let prefix = format!("{table}.");
        columns.iter().filter_map(|column| column.strip_prefix(&prefix)).collect::<Vec<_>>()
    };
    for table in ["job_definitions", "job_runs", "events", "settings", "audit", "job_run_logs"] {
        assert!(!of(table).is_empty(), "there is no table {table}: {columns:?}");
    }
    assert!(of("job_run_logs").contains(&"body"), "{:?}", of("job_run_logs"));
    for table in ["job_runs", "job_run_history"] {
        let logs: Vec<_> = of(table).into_iter().filter(|name| name.contains("log")).collect();
        assert!(logs.iter().all(|name| *name == "log_ref"), "{table} has log text of its own: {logs:?}");
    }
    schema.drop(store.pool()).await;
}

#[tokio::test]
async fn a_schema_of_a_development_version_is_refused_with_what_to_do() {
    let schema = Schema::new();
    let clock = || Arc::new(weaver_runtime::SystemClock::new());
    let store = PostgresStore::open(schema.options(), clock()).await.expect("the schema can be made");
    let older = schema.sql("UPDATE weaver.migrations SET name = 'runs, history'");
    sqlx::query(older).execute(store.pool()).await.expect("the table is there");
    let refused = PostgresStore::open(schema.options(), clock()).await.expect_err("its tables are others");
    assert!(refused.to_string().contains("DROP SCHEMA"), "{refused}");
    schema.drop(store.pool()).await;
}

#[tokio::test]
async fn an_old_binary_refuses_a_newer_schema() {
    let schema = Schema::new();
    let clock = || Arc::new(weaver_runtime::SystemClock::new());
    let store = PostgresStore::open(schema.options(), clock()).await.expect("the schema can be made");
    let newer = schema.sql("INSERT INTO weaver.migrations (version, name) VALUES (99, 'from the future')");
    sqlx::query(newer).execute(store.pool()).await.expect("the table is there");
    let refused = PostgresStore::open(schema.options(), clock()).await.expect_err("it is newer");
    assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused}");
    assert!(refused.to_string().contains("use the newer Weaver"), "{refused}");
    schema.drop(store.pool()).await;
}
