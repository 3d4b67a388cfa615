//! The store on a PostgreSQL server.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use weaver::core::clock::Clock;
use weaver::core::ports::Store;
use weaver::core::quarantine::{CheckProgress, CheckReport};
use weaver::postgres::{OpenError, PostgresOptions, PostgresStore, WeakGuard};

use super::{DirectoryStore, IfMissing, Kind, Made, Migrated, MigrationStep, Opener, StoreKind, StoreUrl};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::finding::Finding;

pub(super) const KIND: Kind =
    Kind { schemes: &["postgres", "postgresql"], example: "`postgres://…`", parse };

struct Postgres {
    options: PostgresOptions,
}

fn parse(text: &str) -> Result<StoreUrl, Failure> {
    match PostgresOptions::parse(text) {
        Ok(options) => Ok(StoreUrl::new(Postgres { options })),
        Err(error) => Err(Failure::new(Exit::Usage, error.to_string()).next(
            "write `postgres://user:password@host/database`; docs/operating/postgres.md has the options",
        )),
    }
}

impl fmt::Display for Postgres {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.options.redacted())
    }
}

impl Postgres {
    async fn open(&self, opener: &Opener<'_>, migrate: bool) -> Result<Arc<dyn Store>, Failure> {
        let mut options = self.options.clone();
        options.retention = opener.config.span(keys::RETENTION);
        options.migrate &= migrate;
        Ok(Arc::new(PostgresStore::open(options, Arc::clone(&opener.clock)).await?))
    }

    fn no_directory(&self) -> Failure {
        let message = format!("{self} is maintained with PostgreSQL's own tools, not with this command");
        Failure::new(Exit::Usage, message).next(
            "back it up with pg_dump, check it with pg_amcheck; `weaver store migrate` migrates its schema \
             (docs/operating/postgres.md)",
        )
    }

    /// Guard triggers that were disabled or dropped: plain SQL can then violate invariants.
    async fn guards(&self) -> Vec<Finding> {
        let weak = match PostgresStore::weak_guards(&self.options).await {
            Ok(weak) => weak,
            Err(error) => return vec![Finding::of_failure("guards", error.into())],
        };
        if weak.is_empty() {
            return vec![Finding::ok("guards", "all guard triggers exist and are enabled for all sessions")];
        }
        weak.iter().map(weak_guard).collect()
    }
}

fn weak_guard(guard: &WeakGuard) -> Finding {
    let (table, name) = (&guard.trigger.table, &guard.trigger.name);
    let state = if guard.is_missing { "is missing" } else { "is disabled" };
    let detail = format!("trigger {name} of {table} {state}: plain SQL can violate what it guards");
    Finding::warn("guards", detail, format!("run as the owner of the schema: {}", guard.remedy()))
}

#[async_trait]
impl StoreKind for Postgres {
    fn place(&self) -> Option<&Path> {
        None
    }

    fn holder(&self) -> Option<u32> {
        None
    }

    async fn open_to_serve(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure> {
        self.open(opener, true).await
    }

    async fn open_to_work(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure> {
        self.open(opener, false).await
    }

    async fn open_directory(&self, _: &Opener<'_>, _: IfMissing) -> Result<DirectoryStore, Failure> {
        Err(self.no_directory())
    }

    async fn init(&self, _: &Opener<'_>) -> Result<Made, Failure> {
        Err(self.no_directory())
    }

    async fn migrate(&self, dry_run: bool) -> Result<Migrated, Failure> {
        let done = PostgresStore::migrate(&self.options, dry_run).await?;
        let steps = done.steps.into_iter().map(|step| MigrationStep {
            version: step.version,
            name: step.name.to_string(),
            sql: step.sql.to_string(),
        });
        Ok(Migrated { before: done.before, steps: steps.collect() })
    }

    async fn check_records(
        &self,
        _: &Config,
        clock: &Arc<dyn Clock>,
        progress: CheckProgress<'_>,
    ) -> Result<Option<CheckReport>, Failure> {
        let mut options = self.options.clone();
        options.migrate = false;
        let store = PostgresStore::open(options, Arc::clone(clock)).await?;
        Ok(Some(store.check(progress, &super::reads).await.map_err(|error| super::unchecked(&error))?))
    }

    async fn examine(&self, _: &Config, _: &Arc<dyn Clock>) -> Vec<Finding> {
        let migrations = match self.migrate(true).await {
            Ok(migrations) => migrations,
            Err(failure) => return vec![Finding::of_failure("store", failure)],
        };
        let newest = migrations.before + migrations.steps.len() as i32;
        let next = "run `weaver store migrate`; `weaver serve` migrates when it starts";
        let mut findings = vec![match migrations.before {
            0 => Finding::warn("store", format!("{self} is reachable and has no schema yet"), next),
            at if at < newest => {
                Finding::warn("store", format!("{self} is reachable: schema {at} of {newest}"), next)
            }
            at => Finding::ok("store", format!("{self} is reachable: schema {at}")),
        }];
        if migrations.before == newest {
            findings.extend(self.guards().await);
        }
        findings
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let exit = match &error {
            OpenError::Url(_) => Exit::Usage,
            OpenError::Connect { .. } => Exit::Busy,
            OpenError::Newer { .. } | OpenError::Older { .. } => Exit::Refused,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}
