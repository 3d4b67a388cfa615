//! `--store dynamodb://…`: the command line on DynamoDB Local.

use std::process::Command;
use std::sync::Arc;

use weaver::core::clock::{Clock, ManualClock};
use weaver::core::queue::QueueExt;
use weaver::dynamodb::{Connection, DynamoOptions, DynamoStore};
use weaver::prelude::{Namespace, NewTask};
use weaver::runtime::SystemClock;
use weaver_testkit::services::dynamodb;

use crate::server::Server;
use crate::support::{Place, Run};

/// The binary on a database of its own: DynamoDB Local keeps one per access key.
struct Database {
    place: Place,
    url: String,
    key: String,
}

impl Database {
    fn new(name: &str) -> Self {
        let url = dynamodb::endpoint().replace("http://", "dynamodb://");
        Self { place: Place::new(), url, key: format!("{name}{}", weaver_testkit::services::process_key()) }
    }

    fn run(&self, arguments: &str) -> Run {
        let mut command = self.place.command(&format!("{arguments} --store {}", self.url));
        Run::of(
            command
                .env("AWS_ACCESS_KEY_ID", &self.key)
                .env("AWS_SECRET_ACCESS_KEY", "x")
                .env_remove("AWS_REGION"),
        )
    }

    fn connection(&self) -> Connection {
        Connection::from_url(&self.url, false, |name| match name {
            "AWS_ACCESS_KEY_ID" => Some(self.key.clone()),
            "AWS_SECRET_ACCESS_KEY" => Some("x".to_owned()),
            _ => None,
        })
        .expect("it is a URL")
    }
}

#[test]
fn init_creates_the_tables_once_with_a_line_each() {
    let database = Database::new("init");
    let made = database.run("store init");
    for table in ["pm-runner-queue", "pm-runner-runners", "weaver-data"] {
        assert!(made.out.contains(&format!("created table `{table}`")), "{}", made.out);
    }
    assert!(database.run("store init").succeeded().contains("already"));
}

#[test]
fn doctor_says_that_the_tables_are_missing_and_later_that_they_are_there() {
    let database = Database::new("doctor");
    let run = database.run("doctor");
    assert!(run.out.contains("weaver store init"), "{}", run.out);
    database.run("store init").succeeded();
    let run = database.run("doctor");
    assert_eq!(run.code, Some(0), "{}", run.out);
    assert!(run.out.contains("the tables exist"), "{}", run.out);
}

#[test]
fn a_worker_does_not_create_tables_by_accident_and_aws_is_refused_unless_allowed() {
    let database = Database::new("worker");
    database.run("worker").failed(3, &["table `pm-runner-queue` does not exist", "weaver store init"]);
    let elsewhere = database.place.run("store init --store dynamodb://dynamodb.eu-west-1.amazonaws.com");
    elsewhere.failed(6, &["is not on this machine", "allow_aws"]);
    database.run("store backup ./copy").failed(2, &["DynamoDB has backups of its own"]);
}

#[test]
fn a_check_reads_every_item_and_says_so() {
    let database = Database::new("check");
    database.run("store check").failed(3, &["table `pm-runner-queue` does not exist", "weaver store init"]);
    database.run("store init").succeeded();
    database.run("tokens create ci --role viewer").succeeded();
    let checked = database.run("store check").succeeded();
    assert!(checked.contains("no problems found") && checked.contains("1 documents"), "{checked}");
    assert!(database.run("doctor").succeeded().contains("no unreadable records"));
}

#[test]
fn tokens_and_tasks_are_kept_in_the_tables() {
    let database = Database::new("tokens");
    database.run("store init").succeeded();
    database.run("tokens create ci --role operator").succeeded();
    assert!(database.run("tokens list").succeeded().contains("ci"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let db = database.connection().open().expect("it is local");
        let clock = Arc::new(ManualClock::default());
        let store = DynamoStore::new(Arc::new(db), clock, DynamoOptions::default());
        let key = store.enqueue(NewTask::new("t")).await.expect("the task is valid").key;
        assert_eq!(key.namespace, Namespace::default());
    });
}

impl Database {
    /// A request that Weaver would not make, as any client of DynamoDB could. DynamoDB Local does not
    /// check signatures.
    fn raw(&self, operation: &str, body: &str) {
        let connection = self.connection();
        let signed = format!(
            "Authorization: AWS4-HMAC-SHA256 Credential={}/20260101/{}/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
            self.key, connection.region
        );
        let run = Run::of(
            Command::new("curl")
                .args(["-sS", "--fail-with-body", &connection.endpoint, "-H", &signed])
                .args(["-H", &format!("X-Amz-Target: DynamoDB_20120810.{operation}")])
                .args(["-H", "Content-Type: application/x-amz-json-1.0", "-d", body]),
        );
        assert_eq!(run.code, Some(0), "{operation}: {}{}", run.out, run.errors);
    }
}

#[test]
fn doctor_lists_tables_of_the_first_version_and_warns_of_runners_that_know_only_the_seed() {
    let database = Database::new("old");
    database.run("store init").succeeded();
    database.raw(
        "CreateTable",
        r#"{"TableName":"pm-runner-queue-project-a","BillingMode":"PAY_PER_REQUEST",
            "AttributeDefinitions":[{"AttributeName":"task_id","AttributeType":"S"}],
            "KeySchema":[{"AttributeName":"task_id","KeyType":"HASH"}]}"#,
    );
    let now = SystemClock::new().now().to_string();
    database.raw(
        "PutItem",
        &format!(
            r#"{{"TableName":"pm-runner-runners","Item":{{"namespace":{{"S":"project-a"}},"runner_id":{{"S":"old-runner"}},
            "status":{{"S":"running"}},"last_heartbeat":{{"S":"{now}"}},"started_at":{{"S":"{now}"}}}}}}"#
        ),
    );
    // Weaver is at work there too.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let db = database.connection().open().expect("it is local");
        let store = DynamoStore::new(Arc::new(db), Arc::new(SystemClock::new()), DynamoOptions::default());
        let task = NewTask::new("t").namespace(Namespace::new("project-a").expect("a name"));
        store.enqueue(task).await.expect("the task is valid");
    });
    let run = database.run("doctor");
    assert!(
        run.out.contains("aws dynamodb delete-table --table-name pm-runner-queue-project-a"),
        "{}",
        run.out
    );
    assert!(run.out.contains("live runners that know only seed 000: project-a/old-runner"), "{}", run.out);
}

#[test]
fn metrics_of_a_server_on_dynamodb_count_requests_and_throttling() {
    let place = Place::new();
    let url = dynamodb::endpoint().replace("http://", "dynamodb://");
    let server = Server::start(&place, &format!("serve --store {url}"));
    let token = place.run("token").succeeded();
    let bearer = format!("Authorization: Bearer {}", token.trim());
    let address = format!("{}/metrics", server.address);
    let metrics = Run::of(Command::new("curl").args(["-fsS", &address, "-H", &bearer])).succeeded();
    for line in ["weaver_dynamodb_throttled_total 0", "weaver_dynamodb_requests_total{operation=\""] {
        assert!(metrics.contains(line), "no `{line}` in\n{metrics}");
    }
}

#[test]
fn ids_of_other_clients_are_shown_as_they_were_written() {
    let database = Database::new("shown");
    database.run("store init").succeeded();
    let item = |id: &str, status: &str| {
        format!(
            r#"{{"TableName":"pm-runner-queue","Item":{{
            "namespace":{{"S":"default"}},"task_id":{{"S":"{id}"}},"session_id":{{"S":"s"}},"status":{{"S":"{status}"}},"prompt":{{"S":"x"}},
            "created_at":{{"S":"2026-01-01T00:00:00.000Z"}},
            "updated_at":{{"S":"2026-01-01T00:00:00.000Z"}}}}}}"#
        )
    };
    database.raw("PutItem", &item("task-001", "QUEUED"));
    database.raw("PutItem", &item("task-002", "ERROR"));
    let mut serve = database.place.command(&format!("serve --listen 127.0.0.1:0 --store {}", database.url));
    serve.env("AWS_ACCESS_KEY_ID", &database.key).env("AWS_SECRET_ACCESS_KEY", "x").env_remove("AWS_REGION");
    let server = Server::spawn(&mut serve);
    let shown = |arguments: &str| server.run(&database.place, arguments).succeeded();
    for arguments in ["tasks list", "tasks show task-001", "tasks explain task-001", "tasks cancel task-001"]
    {
        let out = shown(arguments);
        assert!(out.contains("task-001"), "{arguments}: {out}");
        let longest = out.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
        assert!(longest < Some(19), "{arguments} shows a number: {out}");
    }
    assert!(shown("tasks show task-001 --output json").contains(r#""id": "task-001""#));
}
