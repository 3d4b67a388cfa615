//! The store in DynamoDB.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use weaver::core::clock::Clock;
use weaver::core::name::Namespace;
use weaver::core::ports::{Admin, Store};
use weaver::core::quarantine::{CheckProgress, CheckReport};
use weaver::dynamodb::db::Usage;
use weaver::dynamodb::{
    Connection, DynamoOptions, DynamoStore, StoreError, check_tables, ensure_tables, v1_tables,
};
use weaver_server::Metric;

use super::kind::no_schema;
use super::{DirectoryStore, IfMissing, Kind, Made, Migrated, Opener, StoreKind, StoreUrl};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::finding::Finding;

pub(super) const KIND: Kind = Kind { schemes: &["dynamodb"], example: "`dynamodb://…`", parse };

struct DynamoDb {
    url: String,
}

/// Read-only findings.
#[derive(Debug, Default)]
struct Examined {
    /// Tables of seed 000's first version.
    v1_tables: Vec<String>,
    /// Namespaces with live runners that know only seed 000.
    foreign_runners: Vec<String>,
}

// Parsed when it is opened: that needs the credentials of the environment.
fn parse(text: &str) -> Result<StoreUrl, Failure> {
    Ok(StoreUrl::new(DynamoDb { url: text.to_owned() }))
}

impl fmt::Display for DynamoDb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.url)
    }
}

impl DynamoDb {
    fn connection(&self, config: &Config) -> Result<Connection, Failure> {
        let allow_aws = config.text(keys::DYNAMODB_ALLOW_AWS) == "true";
        Ok(Connection::from_url(&self.url, allow_aws, crate::secrets::variable)?)
    }

    /// Creates missing tables if `may_create`.
    async fn open(&self, opener: &Opener<'_>, may_create: bool) -> Result<Arc<dyn Store>, Failure> {
        let connection = self.connection(opener.config)?;
        let db = connection.open()?;
        if may_create {
            for line in ensure_tables(&db, &connection.endpoint).await?.lines {
                tracing::info!("{line}");
            }
        } else {
            check_tables(&db, &connection.endpoint).await?;
        }
        let options =
            DynamoOptions { retention: opener.config.span(keys::RETENTION), ..DynamoOptions::default() };
        let store = Arc::new(DynamoStore::new(Arc::new(db), Arc::clone(&opener.clock), options));
        let measured = Arc::clone(&store);
        // A command opens one store.
        let _ = opener.store_metrics.set(Arc::new(move || store_metrics(&measured.usage())));
        Ok(store)
    }
}

fn no_directory() -> Failure {
    let message = "this command is for stores in a directory; DynamoDB has backups of its own";
    Failure::new(Exit::Usage, message).next("name a directory with --store")
}

#[async_trait]
impl StoreKind for DynamoDb {
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
        Err(no_directory())
    }

    /// Creates the missing tables, a line each.
    async fn init(&self, opener: &Opener<'_>) -> Result<Made, Failure> {
        let connection = self.connection(opener.config)?;
        let db = connection.open()?;
        let lines = ensure_tables(&db, &connection.endpoint).await?.lines;
        Ok(Made { made: !lines.is_empty(), format: None, lines })
    }

    async fn migrate(&self, _: bool) -> Result<Migrated, Failure> {
        Err(no_schema(self))
    }

    async fn check_records(
        &self,
        config: &Config,
        _: &Arc<dyn Clock>,
        progress: CheckProgress<'_>,
    ) -> Result<Option<CheckReport>, Failure> {
        let connection = self.connection(config)?;
        let db = connection.open()?;
        check_tables(&db, &connection.endpoint).await?;
        let report = weaver::dynamodb::check_records(&db, progress, &super::reads).await;
        Ok(Some(report.map_err(|error| super::unchecked(&error))?))
    }

    async fn examine(&self, config: &Config, clock: &Arc<dyn Clock>) -> Vec<Finding> {
        let connection = match self.connection(config) {
            Ok(connection) => connection,
            Err(failure) => return vec![Finding::of_failure("store", failure)],
        };
        match examine(&connection, Arc::clone(clock)).await {
            Ok(examined) => findings(&connection, &examined),
            Err(failure) if failure.exit == Exit::NotFound => {
                let next = format!("create the tables with `weaver store init --store {self}`");
                vec![Finding::warn("store", failure.message, next)]
            }
            Err(failure) => vec![Finding::of_failure("store", failure)],
        }
    }
}

fn findings(connection: &Connection, examined: &Examined) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("store", format!("{}: the tables exist", connection.endpoint))];
    for table in &examined.v1_tables {
        let detail = format!("table `{table}` is of the first schema version, which Weaver does not read");
        let next = format!("once it is not needed: aws dynamodb delete-table --table-name {table}");
        findings.push(Finding::warn("tables", detail, next));
    }
    if !examined.foreign_runners.is_empty() {
        let runners = examined.foreign_runners.join(", ");
        let detail = format!("live runners that know only seed 000: {runners}");
        let next = "they ignore delays, keys and pauses: stop them, or give them a namespace of their own";
        findings.push(Finding::warn("runners", detail, next));
    }
    findings
}

/// Requests, throttling and capacity units.
fn store_metrics(usage: &Usage) -> Vec<Metric> {
    let requests = usage.requests.iter().map(|(operation, count)| Metric {
        name: "weaver_dynamodb_requests_total",
        help: "Requests to DynamoDB, including retries",
        label: Some(("operation", (*operation).to_owned())),
        value: *count as f64,
    });
    let written = usage.write_units.iter().map(|(place, units)| Metric {
        name: "weaver_dynamodb_write_units_total",
        help: "Consumed write capacity units, by table or index",
        label: Some(("place", place.clone())),
        value: *units,
    });
    let plain = |name, help, value| Metric { name, help, label: None, value };
    let others = [
        plain("weaver_dynamodb_throttled_total", "Throttled requests", usage.throttled as f64),
        plain(
            "weaver_dynamodb_retried_total",
            "Retried requests: throttled, unanswered or partially processed",
            usage.retried as f64,
        ),
        plain(
            "weaver_dynamodb_condition_failures_total",
            "Conditional writes that failed their condition",
            usage.condition_failures as f64,
        ),
        plain("weaver_dynamodb_read_units_total", "Consumed read capacity units", usage.read_units),
    ];
    requests.chain(others).chain(written).collect()
}

/// Checks the tables, leftover tables of the first version, and live foreign runners.
async fn examine(connection: &Connection, clock: Arc<dyn Clock>) -> Result<Examined, Failure> {
    let db = connection.open()?;
    check_tables(&db, &connection.endpoint).await?;
    let v1_tables = v1_tables(&db, &connection.endpoint).await?;
    let store = DynamoStore::new(Arc::new(db), clock, DynamoOptions::default());
    let mut foreign_runners = Vec::new();
    for namespace in store.list_namespaces(None, 1000).await?.items {
        for runner in store.foreign_runners(&namespace).await? {
            foreign_runners.push(format!("{}/{runner}", Namespace::as_str(&namespace)));
        }
    }
    Ok(Examined { v1_tables, foreign_runners })
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::InvalidUrl { .. } => Exit::Usage,
            StoreError::MissingTable { .. } => Exit::NotFound,
            StoreError::Unreachable { .. } | StoreError::Store(_) => Exit::Busy,
            _ => Exit::Refused,
        };
        // The messages say what to do next.
        Self::new(exit, error.to_string())
    }
}
