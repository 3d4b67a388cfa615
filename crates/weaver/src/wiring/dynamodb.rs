//! The store in DynamoDB.

use std::sync::Arc;

use weaver::core::clock::Clock;
use weaver::core::name::Namespace;
use weaver::core::ports::{Admin, Store};
use weaver::dynamodb::db::{AwsDb, Usage};
use weaver::dynamodb::{
    Connection, DynamoOptions, DynamoStore, StoreError, check_tables, ensure_tables, v1_tables,
};

use weaver_server::api::Figure;

use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::wiring::Opener;

/// What is found out about a store in DynamoDB without changing anything.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// Tables of seed 000's first version.
    pub(crate) v1_tables: Vec<String>,
    /// Namespaces with live runners that know only seed 000.
    pub(crate) foreign_runners: Vec<String>,
}

/// How to reach the store.
pub(crate) fn connection(url: &str, config: &Config) -> Result<Connection, Failure> {
    connection_to(url, config.text(keys::DYNAMODB_ALLOW_AWS) == "true")
}

pub(super) fn connection_to(url: &str, allow_aws: bool) -> Result<Connection, Failure> {
    Ok(Connection::from_url(url, allow_aws, crate::secrets::variable)?)
}

/// Makes the tables that are missing; says what was made.
pub(crate) async fn init(connection: &Connection) -> Result<Vec<String>, Failure> {
    let db = connection.open()?;
    Ok(ensure_tables(&db, &connection.endpoint).await?.lines)
}

/// Opens the store, and makes the tables if `may_make`.
pub(super) async fn open(
    connection: &Connection,
    opener: &Opener,
    may_make: bool,
) -> Result<Arc<dyn Store>, Failure> {
    let db = connection.open()?;
    if may_make {
        for line in ensure_tables(&db, &connection.endpoint).await?.lines {
            tracing::info!("{line}");
        }
    } else {
        check_tables(&db, &connection.endpoint).await?;
    }
    let store = Arc::new(store(db, Arc::clone(&opener.clock), opener));
    let asked = Arc::clone(&store);
    // Set once: a command opens one store.
    let _ = opener.figures.set(Arc::new(move || figures(&asked.usage())));
    Ok(store)
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

fn store(db: AwsDb, clock: Arc<dyn Clock>, opener: &Opener) -> DynamoStore {
    let options = DynamoOptions { retention: opener.options.retention, ..DynamoOptions::default() };
    DynamoStore::new(Arc::new(db), clock, options)
}

/// Looks at the tables, at what is left of the first version, and for runners of others.
pub(crate) async fn examine(connection: &Connection, clock: Arc<dyn Clock>) -> Result<Examined, Failure> {
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
