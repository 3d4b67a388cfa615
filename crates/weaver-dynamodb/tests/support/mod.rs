//! A store in a database of its own: DynamoDB Local keeps one per access key.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod caching;
pub(crate) mod lagging;
pub(crate) mod proxy;
pub(crate) mod scripted;
pub(crate) mod seed;
pub(crate) mod stepped;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::ports::Store;
use weaver_core::time::Timestamp;
use weaver_dynamodb::db::{AwsDb, Db, Item, Table, Write, Written};
use weaver_dynamodb::{Connection, DynamoOptions, DynamoStore, ensure_tables};
use weaver_testkit::harness::{CorruptedRecord, Corruption, TestStore};
use weaver_testkit::services::dynamodb;

use caching::Caching;
use lagging::Lagging;

/// An empty database, and how to reach it.
pub(crate) fn database() -> Connection {
    let mut key = [0; 12];
    getrandom::fill(&mut key).expect("there are random bytes");
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    Connection {
        endpoint: dynamodb::endpoint(),
        region: "us-east-1".to_owned(),
        allow_aws: false,
        credentials: Some((key, "secret".to_owned(), None)),
        request_timeout: Duration::from_secs(30),
    }
}

/// A connection to a database with the tables made.
pub(crate) async fn connect(database: &Connection) -> AwsDb {
    let db = database.open().expect("the endpoint is local");
    ensure_tables(&db, &database.endpoint).await.expect("the tables can be made");
    db
}

/// A store in a database.
pub(crate) async fn open(database: &Connection, clock: Arc<dyn Clock>) -> DynamoStore {
    DynamoStore::new(Arc::new(connect(database).await), clock, DynamoOptions::default())
}

/// A fresh store whose indexes lag, with a manual clock.
pub(crate) async fn lagging() -> Box<dyn TestStore> {
    let clock = ManualClock::default();
    let db = Caching::new(connect(&database()).await);
    let db: Arc<dyn Db> = Arc::new(Lagging::new(db, Arc::new(clock.clone())));
    // Small enough that a test can exceed it.
    let options = DynamoOptions { change_log_capacity: 512, ..DynamoOptions::default() };
    let store = DynamoStore::new(Arc::clone(&db), Arc::new(clock.clone()), options);
    Box::new(InDatabase { store: Arc::new(store), clock, db })
}

struct InDatabase {
    store: Arc<DynamoStore>,
    clock: ManualClock,
    db: Arc<dyn Db>,
}

#[async_trait]
impl TestStore for InDatabase {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn corrupt(&self, record: &CorruptedRecord, how: Corruption) -> bool {
        let (table, key, attribute) = place_of(record);
        let write = match how {
            Corruption::Undecodable => Write::update(table, key, "SET #spoiled = :value")
                .name("#spoiled", attribute)
                .value(":value", AttributeValue::S("no such value".to_owned())),
            Corruption::UnknownFormat => Write::update(table, key, "SET #format = :value")
                .name("#format", "format")
                .value(":value", AttributeValue::N("99".to_owned())),
        };
        let written = self.db.write(write).await.expect("the database answers");
        assert!(matches!(written, Written::Applied(_)), "{written:?}");
        true
    }
}

/// Where a record is, and an attribute of it that is not text.
pub(crate) fn place_of(record: &CorruptedRecord) -> (Table, Item, &'static str) {
    let key = |table: Table, partition: String, sort: String| {
        let (one, other) = table.key();
        let (partition, sort) = (AttributeValue::S(partition), AttributeValue::S(sort));
        (table, Item::from([(one.to_owned(), partition), (other.to_owned(), sort)]))
    };
    let ((table, key), attribute) = match record {
        CorruptedRecord::Task(task) => {
            (key(Table::Queue, task.namespace.to_string(), task.id.to_string()), "failures")
        }
        CorruptedRecord::QueueSettings(namespace, queue) => {
            (key(Table::Data, format!("queue\u{1f}{namespace}"), queue.to_string()), "max_running")
        }
        CorruptedRecord::Runner(runner) => {
            let (namespace, id) = (runner.namespace.to_string(), runner.runner_id.to_string());
            (key(Table::Runners, namespace, id), "format")
        }
        CorruptedRecord::Document(document) => {
            let partition = format!("doc\u{1f}{}\u{1f}{}", document.namespace, document.kind);
            (key(Table::Data, partition, document.id.clone()), "body")
        }
    };
    (table, key, attribute)
}

/// An instant as the seed writes it.
pub(crate) fn seed_instant(instant: Timestamp) -> String {
    let exact = instant.to_string();
    format!("{}Z", &exact[..exact.len() - 4])
}
