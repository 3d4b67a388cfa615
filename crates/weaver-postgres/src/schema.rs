//! The schema and its migrations: embedded in the binary, forward only, one node at a time by advisory lock.
//!
//! Functions are created by the first migration and not replaced afterwards: a change to one after a release
//! is a new migration. The test `upgrade` refuses a change without one.

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

/// The schema version this Weaver needs; it refuses an older and a newer one.
pub const SCHEMA_VERSION: i32 = 1;

/// The name of the first migration.
const FIRST: &str = "tasks, leases, ends, documents, streams, runners";

/// One migration of the schema.
#[derive(Debug, Clone)]
pub struct Migration {
    /// The schema version it leads to, counted from 1.
    pub version: i32,
    /// A short description, stored in the table `migrations`.
    pub name: &'static str,
    /// Its statements, run in one transaction with all other pending migrations.
    pub sql: String,
}

/// The result of a migration, or of its dry run.
#[derive(Debug, Clone)]
pub struct Migrations {
    /// The version found; 0 if there was no schema.
    pub before: i32,
    /// The migrations that were applied; in a dry run, those that are pending.
    pub steps: Vec<Migration>,
}

/// Every migration, in order, for a schema of this name.
pub fn migrations(schema: &str) -> Vec<Migration> {
    let first = [
        &with_rules(include_str!("schema/time.sql")),
        &with_rules(include_str!("schema/tables.sql")),
        &with_rules(include_str!("schema/views.sql")),
        &type_defaults_sql(),
        &validation_sql(),
        &with_rules(&enqueue_sql(include_str!("schema/enqueue.sql"))),
        &with_rules(include_str!("schema/pick.sql")),
        &with_rules(include_str!("schema/gate.sql")),
        &with_rules(include_str!("schema/claim.sql")),
        &with_rules(include_str!("schema/assignments.sql")),
        &with_rules(include_str!("schema/wait_probe.sql")),
        &with_rules(include_str!("schema/ends.sql")),
        &with_rules(include_str!("schema/renew.sql")),
        &with_rules(include_str!("schema/moves.sql")),
        &with_rules(include_str!("schema/retention.sql")),
        include_str!("schema/unreadable.sql"),
        include_str!("schema/audit.sql"),
        &with_rules(include_str!("schema/ports.sql")),
        &guards_sql(),
    ]
    .join("\n");
    vec![Migration { version: 1, name: FIRST, sql: render(schema, &first) }]
}

/// Applies the pending migrations; `dry_run` only lists them.
pub(crate) async fn migrate(options: &PostgresOptions, dry_run: bool) -> Result<Migrations, OpenError> {
    let mut connection = connect(options).await?;
    let done = run(&mut connection, options, dry_run).await;
    // The result is known by now; a failing close changes nothing.
    let _ = connection.close().await;
    done
}

async fn connect(options: &PostgresOptions) -> Result<PgConnection, OpenError> {
    let server = options.redacted().to_string();
    let connect_options = options.connect_options()?;
    PgConnection::connect_with(&connect_options)
        .await
        .map_err(|error| OpenError::Connect { server, reason: reason(&error) })
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
    // Nodes that start at the same time: one migrates, the others wait and find nothing pending.
    let lock = format!("SELECT pg_advisory_xact_lock(hashtextextended('migrate {schema}', 11))");
    unnamed(lock).execute(&mut *transaction).await.map_err(failed(0))?;
    let before = version(&mut transaction, schema).await.map_err(failed(0))?;
    if before > SCHEMA_VERSION {
        return Err(OpenError::Newer { schema: schema.clone(), found: before, known: SCHEMA_VERSION });
    }
    refuse_development(&mut transaction, schema, before).await?;
    let steps: Vec<_> = migrations(schema).into_iter().filter(|step| step.version > before).collect();
    if dry_run || steps.is_empty() {
        // Not left to the close: a pooler would drop the server's connection with an open transaction.
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

/// Refuses a schema of any other version than [`SCHEMA_VERSION`].
pub(crate) async fn check(options: &PostgresOptions) -> Result<(), OpenError> {
    let mut connection = connect(options).await?;
    let schema = options.schema.clone();
    let server = options.redacted().to_string();
    let failed = |error: sqlx::Error| OpenError::Connect { server: server.clone(), reason: reason(&error) };
    // In a transaction, so that a pooler sends both statements to one connection.
    let mut transaction = connection.begin().await.map_err(failed)?;
    let found = version(&mut transaction, &schema).await.map_err(failed)?;
    refuse_development(&mut transaction, &schema, found).await?;
    transaction.rollback().await.map_err(failed)?;
    match found.cmp(&SCHEMA_VERSION) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(OpenError::Newer { schema, found, known: SCHEMA_VERSION }),
        std::cmp::Ordering::Less => Err(OpenError::Older { schema, found, known: SCHEMA_VERSION }),
    }
}

/// A guard trigger that is missing or not enabled for every session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeakGuard {
    /// The trigger as it should be.
    pub trigger: GuardTrigger,
    /// Whether it does not exist. Otherwise it is disabled, or enabled only in some sessions.
    pub is_missing: bool,
}

impl WeakGuard {
    /// The statements that restore it.
    pub fn remedy(&self) -> String {
        let create = if self.is_missing { format!("{};\n", self.trigger.create) } else { String::new() };
        format!("{create}{};", self.trigger.enable)
    }
}

/// The guards that are missing or not enabled for every session.
pub(crate) async fn weak_guards(options: &PostgresOptions) -> Result<Vec<WeakGuard>, OpenError> {
    let mut connection = connect(options).await?;
    let server = options.redacted().to_string();
    let failed = |error: sqlx::Error| OpenError::Connect { server: server.clone(), reason: reason(&error) };
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

/// Refuses a schema of a development version, whose first migration had another name and other tables.
async fn refuse_development(
    connection: &mut PgConnection,
    schema: &str,
    version: i32,
) -> Result<(), OpenError> {
    if version == 0 {
        return Ok(());
    }
    let first = unnamed(format!("SELECT name FROM {schema}.migrations WHERE version = 1"));
    let refused = |reason: String| OpenError::Migrate { schema: schema.to_owned(), version: 1, reason };
    let row = first.fetch_optional(connection).await.map_err(|error| refused(reason(&error)))?;
    match row.map(|row| row.try_get::<String, _>(0)) {
        Some(Ok(name)) if name != FIRST => Err(refused(format!(
            "a development version created it with other tables; `DROP SCHEMA {schema} CASCADE`, or choose \
             another with `schema=`"
        ))),
        _ => Ok(()),
    }
}

/// Unprepared: it runs once, and behind a pooler in transaction mode a prepared name may reach another
/// connection.
fn unnamed(text: String) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(text)).persistent(false)
}
