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
use weaver_server::Figure;

use super::kind::no_schema;
use super::{DirectoryStore, IfMissing, Kind, Made, Migrated, Opener, StoreKind, StoreUrl};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::finding::Finding;

pub(super) const KIND: Kind = Kind { schemes: &["dynamodb"], example: "`dynamodb://…`", parse };

struct DynamoDb {
    url: String,
}

/// What is found out about a store in DynamoDB without changing anything.
#[derive(Debug, Default)]
struct Examined {
    /// Tables of seed 000's first version.
    v1_tables: Vec<String>,
    /// Namespaces with live runners that know only seed 000.
    foreign_runners: Vec<String>,
}

// Read when it is opened: that takes the credentials of the environment.
fn parse(text: &str) -> Result<StoreUrl, Failure> {
    Ok(StoreUrl::new(DynamoDb { url: text.to_owned() }))
}

impl fmt::Display for DynamoDb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.url)
    }
}

impl DynamoDb {
    /// How to reach the store.
    fn connection(&self, config: &Config) -> Result<Connection, Failure> {
        let allow_aws = config.text(keys::DYNAMODB_ALLOW_AWS) == "true";
        Ok(Connection::from_url(&self.url, allow_aws, crate::secrets::variable)?)
    }

    /// Opens the store, and makes the tables if `may_make`.
    async fn open(&self, opener: &Opener<'_>, may_make: bool) -> Result<Arc<dyn Store>, Failure> {
        let connection = self.connection(opener.config)?;
        let db = connection.open()?;
        if may_make {
            for line in ensure_tables(&db, &connection.endpoint).await?.lines {
                tracing::info!("{line}");
            }
        } else {
            check_tables(&db, &connection.endpoint).await?;
        }
        let options =
            DynamoOptions { retention: opener.config.span(keys::RETENTION), ..DynamoOptions::default() };
        let store = Arc::new(DynamoStore::new(Arc::new(db), Arc::clone(&opener.clock), options));
        let asked = Arc::clone(&store);
        // Set once: a command opens one store.
        let _ = opener.figures.set(Arc::new(move || figures(&asked.usage())));
        Ok(store)
    }
}

fn no_directory() -> Failure {
    let message = "this command looks after a store in a directory; DynamoDB has backups of its own";
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

    /// Makes the tables that are missing, a line each.
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
                let next = format!("make the tables with `weaver store init --store {self}`");
                vec![Finding::warn("store", failure.message, next)]
            }
            Err(failure) => vec![Finding::of_failure("store", failure)],
        }
    }
}

fn findings(connection: &Connection, examined: &Examined) -> Vec<Finding> {
    let mut findings =
        vec![Finding::ok("store", format!("{}: the tables are seed 000's", connection.endpoint))];
    for table in &examined.v1_tables {
        let detail = format!("table `{table}` is of the first version, which Weaver never reads");
        let next = format!("when nothing needs it any more: aws dynamodb delete-table --table-name {table}");
        findings.push(Finding::warn("tables", detail, next));
    }
    if !examined.foreign_runners.is_empty() {
        let runners = examined.foreign_runners.join(", ");
        let detail = format!("runners that know only seed 000 are at work: {runners}");
        let next = "they take tasks without regard to delays, keys and pauses: stop them, or give them a namespace of \
             their own";
        findings.push(Finding::warn("runners", detail, next));
    }
    findings
}

/// What was asked of DynamoDB, and what became of it.
fn figures(usage: &Usage) -> Vec<Figure> {
    let requests = usage.requests.iter().map(|(operation, count)| Figure {
        name: "weaver_dynamodb_requests_total",
        help: "Requests to DynamoDB, repetitions included",
        label: Some(("operation", (*operation).to_owned())),
        value: *count as f64,
    });
    let written = usage.write_units.iter().map(|(place, units)| Figure {
        name: "weaver_dynamodb_write_units_total",
        help: "Write units, by table or index",
        label: Some(("place", place.clone())),
        value: *units,
    });
    let plain = |name, help, value| Figure { name, help, label: None, value };
    let others = [
        plain(
            "weaver_dynamodb_throttled_total",
            "Times that DynamoDB said it was asked too much",
            usage.throttled as f64,
        ),
        plain(
            "weaver_dynamodb_repeated_total",
            "Requests sent again: throttled, unanswered or partly done",
            usage.repeated as f64,
        ),
        plain("weaver_dynamodb_refused_total", "Writes refused by their condition", usage.refused as f64),
        plain("weaver_dynamodb_read_units_total", "Read units", usage.read_units),
    ];
    requests.chain(others).chain(written).collect()
}

/// Looks at the tables, at what is left of the first version, and for runners of others.
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
            StoreError::NoUrl { .. } => Exit::Usage,
            StoreError::Missing { .. } => Exit::NotFound,
            StoreError::Unreachable { .. } | StoreError::Store(_) => Exit::Busy,
            _ => Exit::Refused,
        };
        // The messages say what to do next.
        Self::new(exit, error.to_string())
    }
}
