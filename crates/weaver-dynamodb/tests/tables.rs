//! The tables: created as in seed 000's YAML; existing ones are compared and never changed, except for our
//! own index.

mod support;

use std::sync::Arc;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ProvisionedThroughput, ScalarAttributeType, TableDescription,
};
use weaver_core::clock::ManualClock;
use weaver_core::id::LeaseToken;
use weaver_core::lease::LeaseRequest;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::queue::{Queue, QueueExt};
use weaver_core::task::NewTask;
use weaver_dynamodb::{Connection, StoreError, check_tables, ensure_tables, v1_tables};

use support::seed::SeedClient;

async fn described(seed: &SeedClient, table: &str) -> TableDescription {
    let answer = seed.0.describe_table().table_name(table).send().await.expect("the table is there");
    answer.table.expect("it is described")
}

fn schema(schema: &[KeySchemaElement]) -> Vec<(String, String)> {
    schema.iter().map(|key| (key.attribute_name().to_owned(), key.key_type().as_str().to_owned())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

#[tokio::test]
async fn the_queue_table_is_made_as_the_seeds_yaml_writes_it() {
    let database = support::database();
    support::connect(&database).await;
    let table = described(&SeedClient::new(&database), "pm-runner-queue").await;
    assert_eq!(schema(table.key_schema()), pairs(&[("namespace", "HASH"), ("task_id", "RANGE")]));
    let index =
        table.global_secondary_indexes().iter().find(|index| index.index_name() == Some("status-index"));
    let index = index.expect("the seed's index is there");
    assert_eq!(schema(index.key_schema()), pairs(&[("status", "HASH"), ("created_at", "RANGE")]));
    assert_eq!(index.projection().expect("as set up").projection_type(), Some(&ProjectionType::All));
    for name in ["namespace", "task_id", "status", "created_at"] {
        let defined = table.attribute_definitions().iter().find(|defined| defined.attribute_name() == name);
        assert_eq!(defined.expect("as set up").attribute_type(), &ScalarAttributeType::S, "{name}");
    }
}

#[tokio::test]
async fn the_runners_table_is_made_as_the_seeds_yaml_writes_it() {
    let database = support::database();
    support::connect(&database).await;
    let table = described(&SeedClient::new(&database), "pm-runner-runners").await;
    assert_eq!(schema(table.key_schema()), pairs(&[("namespace", "HASH"), ("runner_id", "RANGE")]));
    assert_eq!(table.attribute_definitions().len(), 2);
    assert!(table.global_secondary_indexes().is_empty());
}

/// Makes a table by hand, paid per request.
async fn make(seed: &SeedClient, name: &str, keys: (&str, &str), with_index: bool) {
    make_with(seed, name, keys, with_index, None).await;
}

/// Makes a table by hand; with provisioned units, as the seed's YAML leaves it open.
async fn make_with(
    seed: &SeedClient,
    name: &str,
    keys: (&str, &str),
    with_index: bool,
    units: Option<(i64, i64)>,
) {
    let throughput = units.map(|(read, write)| {
        let units = ProvisionedThroughput::builder().read_capacity_units(read).write_capacity_units(write);
        units.build().expect("as set up")
    });
    let billing = if units.is_some() { BillingMode::Provisioned } else { BillingMode::PayPerRequest };
    let element = |name: &str, kind| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("as set up")
    };
    let key = |keys: (&str, &str)| vec![element(keys.0, KeyType::Hash), element(keys.1, KeyType::Range)];
    let define = |name: &str| {
        let definition = AttributeDefinition::builder().attribute_name(name);
        definition.attribute_type(ScalarAttributeType::S).build().expect("as set up")
    };
    let mut request = seed.0.create_table().table_name(name).billing_mode(billing);
    request = request.set_provisioned_throughput(throughput.clone());
    request = request.set_key_schema(Some(key(keys)));
    request = request.attribute_definitions(define(keys.0)).attribute_definitions(define(keys.1));
    if with_index {
        let projection = Projection::builder().projection_type(ProjectionType::All).build();
        let index = GlobalSecondaryIndex::builder().index_name("status-index").projection(projection);
        let index = index.set_provisioned_throughput(throughput);
        let index = index.set_key_schema(Some(key(("status", "created_at")))).build().expect("as set up");
        request = request.attribute_definitions(define("status")).attribute_definitions(define("created_at"));
        request = request.global_secondary_indexes(index);
    }
    request.send().await.expect("the table can be made");
}

#[tokio::test]
async fn a_table_created_from_the_seeds_yaml_works_unchanged() {
    let database = support::database();
    let seed = SeedClient::new(&database);
    make(&seed, "pm-runner-queue", ("namespace", "task_id"), true).await;
    make(&seed, "pm-runner-runners", ("namespace", "runner_id"), false).await;
    seed.put_task("default", "task-001", "QUEUED", &[]).await;
    let db = database.open().expect("as set up");
    let refused = check_tables(&db, &database.endpoint).await.unwrap_err();
    assert!(matches!(refused, StoreError::MissingIndex { .. }), "{refused}");
    let command = format!("`weaver store init --store {}`", database.endpoint.replace("http", "dynamodb"));
    assert!(refused.to_string().ends_with(&command), "{refused}");
    let made = ensure_tables(&db, &database.endpoint).await.expect("as set up");
    assert_eq!(
        made.lines,
        ["added index `ready-index` to table `pm-runner-queue`", "created table `weaver-data`"]
    );
    check_tables(&db, &database.endpoint).await.expect("as set up");
    assert_eq!(ensure_tables(&db, &database.endpoint).await.expect("as set up").lines, Vec::<String>::new());
    let clock = Arc::new(ManualClock::default());
    let store = support::open(&database, clock).await;
    store.enqueue(NewTask::new("t")).await.expect("as set up");
    let (worker, token) = (WorkerId::new("w").expect("as set up"), LeaseToken(1));
    let request = LeaseRequest {
        max: 5,
        slots: 5,
        ..LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token)
    };
    assert_eq!(store.lease(request).await.expect("as set up").len(), 2, "ours and theirs");
}

#[tokio::test]
async fn a_provisioned_table_of_the_seeds_yaml_works_with_its_throughput_on_our_index() {
    let database = support::database();
    let seed = SeedClient::new(&database);
    let units = Some((7, 3));
    make_with(&seed, "pm-runner-queue", ("namespace", "task_id"), true, units).await;
    make_with(&seed, "pm-runner-runners", ("namespace", "runner_id"), false, units).await;
    seed.put_task("default", "task-001", "QUEUED", &[]).await;
    let store = support::open(&database, Arc::new(ManualClock::default())).await;
    let table = described(&seed, "pm-runner-queue").await;
    let index =
        table.global_secondary_indexes().iter().find(|index| index.index_name() == Some("ready-index"));
    let units = index.and_then(|index| index.provisioned_throughput()).expect("the index has units");
    assert_eq!((units.read_capacity_units(), units.write_capacity_units()), (Some(7), Some(3)));
    let (worker, token) = (WorkerId::new("w").expect("as set up"), LeaseToken(1));
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
    assert_eq!(store.lease(request).await.expect("as set up").len(), 1);
}

#[tokio::test]
async fn a_different_key_is_an_error_that_names_the_difference_and_touches_nothing() {
    let database = support::database();
    let seed = SeedClient::new(&database);
    make(&seed, "pm-runner-queue", ("namespace", "id"), false).await;
    let refused = ensure_tables(&database.open().expect("as set up"), &database.endpoint).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("id (RANGE)") && text.contains("task_id (RANGE)"), "{text}");
    let names = seed.0.list_tables().send().await.expect("as set up").table_names.expect("as set up");
    assert_eq!(names, ["pm-runner-queue"], "no other table was made");
}

#[tokio::test]
async fn a_queue_table_without_the_seeds_index_is_refused() {
    let database = support::database();
    make(&SeedClient::new(&database), "pm-runner-queue", ("namespace", "task_id"), false).await;
    let refused = ensure_tables(&database.open().expect("as set up"), &database.endpoint).await.unwrap_err();
    assert!(refused.to_string().contains("status-index"), "{refused}");
}

#[tokio::test]
async fn tables_of_the_first_version_are_listed_and_left_alone() {
    let database = support::database();
    let seed = SeedClient::new(&database);
    make(&seed, "pm-runner-queue-project-a", ("task_id", "created_at"), false).await;
    seed.put(
        "pm-runner-queue-project-a",
        &[("task_id", "old"), ("created_at", "2025"), ("status", "QUEUED")],
    )
    .await;
    let db = support::connect(&database).await;
    assert_eq!(v1_tables(&db, &database.endpoint).await.expect("as set up"), ["pm-runner-queue-project-a"]);
    let store = support::open(&database, Arc::new(ManualClock::default())).await;
    store.overdue(10).await.expect("as set up");
    let items = seed
        .0
        .scan()
        .table_name("pm-runner-queue-project-a")
        .send()
        .await
        .expect("as set up")
        .items
        .expect("as set up");
    assert_eq!(items.len(), 1, "it is still there");
    assert_eq!(items[0]["status"].as_s().expect("as set up"), "QUEUED");
}

#[tokio::test]
async fn an_unreachable_dynamodb_is_reported_with_how_to_start_one() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("as set up")
        .local_addr()
        .expect("as set up")
        .port();
    let database = Connection { endpoint: format!("http://127.0.0.1:{closed}"), ..support::database() };
    let refused = check_tables(&database.open().expect("as set up"), &database.endpoint).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains(&database.endpoint) && text.contains("docker run -p 8000:8000"), "{text}");
}
