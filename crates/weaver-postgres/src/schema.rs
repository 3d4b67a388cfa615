//! The schema and how it comes about: steps inside the binary, forward only, one node at a time.

mod admission;
mod defaults;
mod guard_conditions;
mod guard_triggers;
mod validation;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Row};

use crate::error::{OpenError, reason};
use crate::options::PostgresOptions;
use crate::sql::render;

pub(crate) use admission::with_rules;
use defaults::type_defaults_sql;
use guard_triggers::guards_sql;
pub use guard_triggers::{GuardTrigger, allowed_moves, guard_triggers};
use validation::{enqueue_sql, validation_sql};

/// The version of the schema this Weaver works with.
pub const SCHEMA_VERSION: i32 = 1;

/// A step of the schema.
#[derive(Debug, Clone)]
pub struct Migration {
    /// Its number, from 1.
    pub version: i32,
    /// What it is about.
    pub name: &'static str,
    /// What it says to the server.
    pub sql: String,
}

/// What has been done to a schema, and what is left.
#[derive(Debug, Clone)]
pub struct Migrations {
    /// The version it had.
    pub before: i32,
    /// The steps that were made, or would be.
    pub steps: Vec<Migration>,
}

/// Every step, in order, for a schema of this name.
pub fn migrations(schema: &str) -> Vec<Migration> {
    let first = [
        &with_rules(include_str!("schema/time.sql")),
        &with_rules(include_str!("schema/tables.sql")),
        &type_defaults_sql(),
        &validation_sql(),
        &with_rules(&enqueue_sql(include_str!("schema/enqueue.sql"))),
        &with_rules(include_str!("schema/pick.sql")),
        &with_rules(include_str!("schema/gate.sql")),
        &with_rules(include_str!("schema/claim.sql")),
        &with_rules(include_str!("schema/look.sql")),
        &with_rules(include_str!("schema/ends.sql")),
        &with_rules(include_str!("schema/moves.sql")),
        &with_rules(include_str!("schema/keep.sql")),
        include_str!("schema/unreadable.sql"),
        &with_rules(include_str!("schema/ports.sql")),
        &guards_sql(),
    ]
    .join("\n");
    vec![Migration {
        version: 1,
        name: "runs, history, documents, streams, runners",
        sql: render(schema, &first),
    }]
}

/// Brings the schema up to date, or only says what that would take.
pub(crate) async fn migrate(options: &PostgresOptions, dry_run: bool) -> Result<Migrations, OpenError> {
    let mut connection = connect(options).await?;
    let done = run(&mut connection, options, dry_run).await;
    // Whatever happened, the answer is known; a connection that does not close politely is dropped.
    let _ = connection.close().await;
    done
}

async fn connect(options: &PostgresOptions) -> Result<PgConnection, OpenError> {
    let place = options.redacted().to_string();
    let connect_options = options.connect_options()?;
    PgConnection::connect_with(&connect_options)
        .await
        .map_err(|error| OpenError::Connect { place, reason: reason(&error) })
}

async fn run(
    connection: &mut PgConnection,
    options: &PostgresOptions,
    dry_run: bool,
) -> Result<Migrations, OpenError> {
    let schema = &options.schema;
    let failed = |version: i32| {
        move |error: sqlx::Error| OpenError::Migrate {
            schema: schema.clone(),
            version,
            reason: reason(&error),
        }
    };
    let mut transaction = connection.begin().await.map_err(failed(0))?;
    // Several nodes that start at once: one migrates, the others wait and find nothing left.
    let lock = format!("SELECT pg_advisory_xact_lock(hashtextextended('migrate {schema}', 11))");
    unnamed(lock).execute(&mut *transaction).await.map_err(failed(0))?;
    let before = version(&mut transaction, schema).await.map_err(failed(0))?;
    if before > SCHEMA_VERSION {
        return Err(OpenError::Newer { schema: schema.clone(), found: before, known: SCHEMA_VERSION });
    }
    let steps: Vec<_> = migrations(schema).into_iter().filter(|step| step.version > before).collect();
    if dry_run || steps.is_empty() {
        // Not left to the end of the connection: a pooler gives up the server's connection with it.
        transaction.rollback().await.map_err(failed(before))?;
        return Ok(Migrations { before, steps });
    }
    if before == 0 {
        let begin = format!(
            "CREATE SCHEMA IF NOT EXISTS {schema};
             CREATE TABLE {schema}.migrations (version integer PRIMARY KEY, name text NOT NULL, \
             applied_at timestamptz NOT NULL DEFAULT now())"
        );
        sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut *transaction).await.map_err(failed(0))?;
    }
    for step in &steps {
        let statements = sqlx::raw_sql(AssertSqlSafe(step.sql.clone()));
        statements.execute(&mut *transaction).await.map_err(failed(step.version))?;
        let note = format!("INSERT INTO {schema}.migrations (version, name) VALUES ($1, $2)");
        let note = unnamed(note).bind(step.version).bind(step.name);
        note.execute(&mut *transaction).await.map_err(failed(step.version))?;
    }
    transaction.commit().await.map_err(failed(SCHEMA_VERSION))?;
    Ok(Migrations { before, steps })
}

/// Refuses a schema that is not ours to work with.
pub(crate) async fn check(options: &PostgresOptions) -> Result<(), OpenError> {
    let mut connection = connect(options).await?;
    let schema = options.schema.clone();
    let place = options.redacted().to_string();
    let failed = |error: sqlx::Error| OpenError::Connect { place: place.clone(), reason: reason(&error) };
    // In a transaction, so that a pooler has no say in who answers.
    let mut transaction = connection.begin().await.map_err(failed)?;
    let found = version(&mut transaction, &schema).await.map_err(failed)?;
    transaction.rollback().await.map_err(failed)?;
    match found.cmp(&SCHEMA_VERSION) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(OpenError::Newer { schema, found, known: SCHEMA_VERSION }),
        std::cmp::Ordering::Less => Err(OpenError::Older { schema, found, known: SCHEMA_VERSION }),
    }
}

/// A guard that does not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeakGuard {
    /// Which one.
    pub trigger: GuardTrigger,
    /// Whether it is not there at all. Otherwise it is disabled, or enabled only in some sessions.
    pub is_missing: bool,
}

impl WeakGuard {
    /// The statements that make it work again.
    pub fn remedy(&self) -> String {
        let create = if self.is_missing { format!("{};\n", self.trigger.create) } else { String::new() };
        format!("{create}{};", self.trigger.enable)
    }
}

/// The guards that are missing or not enabled for every session.
pub(crate) async fn weak_guards(options: &PostgresOptions) -> Result<Vec<WeakGuard>, OpenError> {
    let mut connection = connect(options).await?;
    let place = options.redacted().to_string();
    let failed = |error: sqlx::Error| OpenError::Connect { place: place.clone(), reason: reason(&error) };
    let mut transaction = connection.begin().await.map_err(failed)?;
    let found = unnamed(
        "SELECT c.relname::text, t.tgname::text, t.tgenabled = 'A' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND NOT t.tgisinternal"
            .to_owned(),
    );
    let rows = found.bind(&options.schema).fetch_all(&mut *transaction).await.map_err(failed)?;
    transaction.rollback().await.map_err(failed)?;
    let mut enabled = std::collections::HashMap::new();
    for row in &rows {
        let (table, name): (String, String) =
            (row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?);
        enabled.insert((table, name), row.try_get::<bool, _>(2).map_err(failed)?);
    }
    let weak = |trigger: GuardTrigger| match enabled.get(&(trigger.table.clone(), trigger.name.clone())) {
        Some(true) => None,
        Some(false) => Some(WeakGuard { trigger, is_missing: false }),
        None => Some(WeakGuard { trigger, is_missing: true }),
    };
    Ok(guard_triggers(&options.schema).into_iter().filter_map(weak).collect())
}

async fn version(connection: &mut PgConnection, schema: &str) -> Result<i32, sqlx::Error> {
    let there = unnamed("SELECT to_regclass($1) IS NOT NULL".to_owned()).bind(format!("{schema}.migrations"));
    if !there.fetch_one(&mut *connection).await?.try_get::<bool, _>(0)? {
        return Ok(0);
    }
    let newest = format!("SELECT coalesce(max(version), 0) FROM {schema}.migrations");
    unnamed(newest).fetch_one(&mut *connection).await?.try_get(0)
}

/// Said once, so not worth a name; and a pooler in transaction mode would give the name to somebody else.
fn unnamed(text: String) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(text)).persistent(false)
}
