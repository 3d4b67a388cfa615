//! A client that knows only seed 000's attributes and statuses.

use std::collections::BTreeMap;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_http_client::Builder;
use weaver_dynamodb::Connection;

pub(crate) struct SeedClient(pub(crate) Client);

/// The string attributes of an item.
pub(crate) type Texts = BTreeMap<String, String>;

impl SeedClient {
    pub(crate) fn new(database: &Connection) -> Self {
        let (key, secret, _) = database.credentials.clone().expect("a database has a key of its own");
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&database.endpoint)
            .region(Region::new(database.region.clone()))
            .credentials_provider(Credentials::new(key, secret, None, None, "test"))
            .http_client(Builder::new().build_http())
            .build();
        Self(Client::from_conf(config))
    }

    /// Writes an item of seed 000's queue.
    pub(crate) async fn put_task(&self, namespace: &str, task_id: &str, status: &str, more: &[(&str, &str)]) {
        let mut attributes = vec![
            ("namespace", namespace),
            ("task_id", task_id),
            ("task_group_id", "group-1"),
            ("session_id", "session-1"),
            ("status", status),
            ("prompt", "write a test"),
            ("created_at", "2026-01-01T00:00:00.000Z"),
            ("updated_at", "2026-01-01T00:00:00.000Z"),
        ];
        attributes.extend(more);
        self.put("pm-runner-queue", &attributes).await;
    }

    /// Writes an item of any table.
    pub(crate) async fn put(&self, table: &str, attributes: &[(&str, &str)]) {
        let mut request = self.0.put_item().table_name(table);
        for (name, value) in attributes {
            request = request.item(*name, AttributeValue::S((*value).to_owned()));
        }
        request.send().await.expect("the item is valid");
    }

    /// Changes the status of a task without its version.
    pub(crate) async fn set_status(&self, namespace: &str, task_id: &str, status: &str) {
        let request = self.0.update_item().table_name("pm-runner-queue");
        let request = request.key("namespace", AttributeValue::S(namespace.to_owned()));
        let request = request.key("task_id", AttributeValue::S(task_id.to_owned()));
        let request = request.update_expression("SET #status = :status, updated_at = :now");
        let request = request.expression_attribute_names("#status", "status");
        let request = request.expression_attribute_values(":status", AttributeValue::S(status.to_owned()));
        let now = AttributeValue::S("2026-01-01T00:00:01.000Z".to_owned());
        request.expression_attribute_values(":now", now).send().await.expect("the item is there");
    }

    /// The string attributes of a task.
    pub(crate) async fn task(&self, namespace: &str, task_id: &str) -> Texts {
        let request = self.0.get_item().table_name("pm-runner-queue").consistent_read(true);
        let request = request.key("namespace", AttributeValue::S(namespace.to_owned()));
        let request = request.key("task_id", AttributeValue::S(task_id.to_owned()));
        let answer = request.send().await.expect("the table is there");
        texts(answer.item.expect("the item is there"))
    }

    /// The string attributes of a runner.
    pub(crate) async fn runner(&self, namespace: &str, runner_id: &str) -> Texts {
        let request = self.0.get_item().table_name("pm-runner-runners").consistent_read(true);
        let request = request.key("namespace", AttributeValue::S(namespace.to_owned()));
        let request = request.key("runner_id", AttributeValue::S(runner_id.to_owned()));
        let answer = request.send().await.expect("the table is there");
        texts(answer.item.expect("the item is there"))
    }

    /// The tasks of a namespace, read as seed 000 specifies.
    pub(crate) async fn tasks(&self, namespace: &str) -> Vec<Texts> {
        let request = self.0.query().table_name("pm-runner-queue");
        let request = request.key_condition_expression("#namespace = :namespace");
        let request = request.expression_attribute_names("#namespace", "namespace");
        let namespace = AttributeValue::S(namespace.to_owned());
        let answer = request.expression_attribute_values(":namespace", namespace).send().await;
        answer.expect("the table is there").items.unwrap_or_default().into_iter().map(texts).collect()
    }
}

fn texts(item: std::collections::HashMap<String, AttributeValue>) -> Texts {
    item.into_iter()
        .filter_map(|(name, value)| match value {
            AttributeValue::S(text) => Some((name, text)),
            _ => None,
        })
        .collect()
}

/// Whether a text is an instant as the seed writes it: ISO 8601 with milliseconds and `Z`.
pub(crate) fn is_seed_instant(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00.000Z"
}
