use std::collections::BTreeSet;

use serde_json::Value;

use crate::server::Server;

/// The routes of the table in the wire's documentation.
fn documented() -> BTreeSet<(String, String)> {
    let text = include_str!("../../../weaver-api/src/lib.rs");
    let mut routes = BTreeSet::new();
    for row in text.lines().filter_map(|line| line.strip_prefix("//! | `")) {
        let cell = row.split('|').next().expect("as the test expects");
        let mut words = cell.split('`').filter(|word| !word.trim().is_empty());
        let (method, path) =
            words.next().expect("as the test expects").split_once(' ').expect("as the test expects");
        routes.insert((method.to_lowercase(), path.to_owned()));
        for other in words {
            // `/resume` beside `…/pause`, `/readyz` beside `/healthz`.
            let (parent, _) = path.rsplit_once('/').expect("as the test expects");
            routes.insert((method.to_lowercase(), format!("{parent}{other}")));
        }
    }
    routes
}

fn described(document: &Value) -> BTreeSet<(String, String)> {
    let mut routes = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("as the test expects") {
        for method in item.as_object().expect("as the test expects").keys() {
            routes.insert((method.clone(), path.clone()));
        }
    }
    routes
}

#[tokio::test]
async fn the_document_has_every_route_and_no_other() {
    let server = Server::start().await;
    let document = server.get("/api/openapi.json").await.expect(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(described(&document), documented());
    for (method, path) in documented() {
        let path = path.replace("{id}", "1").replace("{queue}", "q");
        if path == "/api/v1/events" {
            continue;
        }
        let answer = match method.as_str() {
            "get" => server.get(&path).await,
            method => server.with_body(&method.to_uppercase(), &path, "{}").await,
        };
        assert!(
            !answer.body.contains("no_such_route") && answer.status != 405,
            "{method} {path}: {answer:?}"
        );
        assert!(answer.status < 500, "{method} {path}: {answer:?}");
    }
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_operation_has_a_name_and_a_problem() {
    let server = Server::start().await;
    let document = server.get("/api/openapi.json").await.expect(200);
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 50, "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("within the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let mut names = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{operation}");
            let problem = &operation["responses"]["default"]["content"]["application/problem+json"];
            assert_eq!(problem["schema"]["$ref"], "#/components/schemas/Problem");
        }
    }
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

/// Whether a text of one line matches a pattern.
fn is_match(pattern: &str, text: &str) -> bool {
    let command = "printf '%s\\n' \"$2\" | LC_ALL=C.UTF-8 grep -Pq -- \"$1\"";
    let shell = std::process::Command::new("sh").args(["-c", command, "sh", pattern, text]).status();
    shell.expect("there is a shell").success()
}

#[tokio::test]
async fn the_patterns_of_leases_and_logs_admit_ids_of_weaver_and_of_other_clients() {
    let server = Server::start().await;
    let document = server.get("/api/openapi.json").await.expect(200);
    let schemas = &document["components"]["schemas"];
    let lease = schemas["Lease"]["properties"]["id"]["pattern"].as_str().expect("it has one");
    let log = schemas["StreamAppend"]["properties"]["stream"]["pattern"].as_str().expect("it has one");
    for id in ["0", "42", "18446744073709551615", "007", "task-001", "a/b", "a b", "タスク"] {
        assert!(is_match(lease, id), "{id}");
        assert!(is_match(log, &format!("task/{id}/1")), "{id}");
    }
    for id in ["", "a\tb", "a\u{1b}[0m"] {
        assert!(!is_match(lease, id), "{id:?}");
        assert!(!is_match(log, &format!("task/{id}/1")), "{id:?}");
    }
    for stream in ["task/42", "task/42/01", "task/42/x", "audit", "statsx"] {
        assert!(!is_match(log, stream), "{stream}");
    }
}
