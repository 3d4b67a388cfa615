use serde_json::json;
use weaver_server::security::Role;

use crate::server::{Server, TestResponse, request};

async fn guarded() -> (Server, String) {
    Server::guarded("root", Role::Admin).await
}

async fn ask(server: &Server, token: &str, method: &str, path: &str, body: &str) -> TestResponse {
    let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let headers = format!("Authorization: Bearer {token}\r\n{content}");
    server.send(&request(method, path, server.address, &headers, body)).await
}

#[tokio::test]
async fn a_token_created_over_the_api_has_its_roles_permissions_until_it_is_revoked() {
    let (server, root) = guarded().await;
    let new = json!({ "name": "ci", "role": "producer", "namespaces": ["build"], "expires_in_ms": 60_000 });
    let made = ask(&server, &root, "POST", "/api/v1/tokens", &new.to_string()).await.expect(201);
    let (ci, id) = (made["token"].as_str().unwrap(), made["info"]["id"].as_str().unwrap());
    let task = r#"{"task_type":"t","namespace":"build"}"#;
    ask(&server, ci, "POST", "/api/v1/tasks", task).await.expect(201);
    ask(&server, ci, "POST", "/api/v1/tasks", r#"{"task_type":"t"}"#).await.expect(403);
    ask(&server, ci, "POST", "/api/v1/tasks/1/cancel?namespace=build", "").await.expect(403);
    let listed = ask(&server, &root, "GET", "/api/v1/tokens", "").await;
    assert!(!listed.body.contains(ci), "a list tells no secrets");
    let listed = listed.expect(200);
    let item = listed["items"].as_array().unwrap().iter().find(|item| item["id"] == id).unwrap();
    assert_eq!((&item["role"], &item["namespaces"]), (&json!("producer"), &json!(["build"])));
    assert!(item["created_by"].as_str().unwrap().starts_with("root@"), "{item}");

    let path = format!("/api/v1/tokens/{id}");
    ask(&server, &root, "DELETE", &path, "").await.expect(204);
    ask(&server, ci, "POST", "/api/v1/tasks", task).await.expect(401);
    let again = ask(&server, &root, "DELETE", &path, "").await.expect(404);
    assert_eq!(again["code"], "no_such_token");
}

#[tokio::test]
async fn the_creation_and_revocation_of_tokens_are_in_the_journal_of_the_server() {
    let (server, root) = guarded().await;
    let new = json!({ "name": "ci", "role": "operator" }).to_string();
    let made = ask(&server, &root, "POST", "/api/v1/tokens", &new).await.expect(201);
    let id = made["info"]["id"].as_str().unwrap();
    ask(&server, &root, "DELETE", &format!("/api/v1/tokens/{id}"), "").await.expect(204);
    let path = "/api/v1/audit?namespace=weaver.internal";
    let journal = ask(&server, &root, "GET", path, "").await.expect(200);
    let entries = journal["entries"].as_array().unwrap();
    let target = json!(format!("token/{id}"));
    let actions: Vec<_> = entries.iter().map(|entry| (&entry["action"], &entry["target"])).collect();
    assert_eq!(actions, [(&json!("token.create"), &target), (&json!("token.revoke"), &target)]);
    assert!(entries[0]["actor"].as_str().unwrap().starts_with("root@"));

    let narrow = json!({ "name": "ops", "role": "operator", "namespaces": ["a"] }).to_string();
    let made = ask(&server, &root, "POST", "/api/v1/tokens", &narrow).await.expect(201);
    ask(&server, made["token"].as_str().unwrap(), "GET", path, "").await.expect(403);
}

#[tokio::test]
async fn only_an_admin_of_all_namespaces_manages_tokens() {
    let (server, root) = guarded().await;
    let admin_of_one = json!({ "name": "a", "role": "admin", "namespaces": ["a"] });
    for new in [json!({ "name": "o", "role": "operator" }), admin_of_one] {
        let made = ask(&server, &root, "POST", "/api/v1/tokens", &new.to_string()).await.expect(201);
        let token = made["token"].as_str().unwrap();
        ask(&server, token, "GET", "/api/v1/tokens", "").await.expect(403);
        ask(&server, token, "POST", "/api/v1/tokens", r#"{"name":"x","role":"admin"}"#).await.expect(403);
        let id = made["info"]["id"].as_str().unwrap();
        ask(&server, token, "DELETE", &format!("/api/v1/tokens/{id}"), "").await.expect(403);
    }
}

#[tokio::test]
async fn an_invalid_new_token_is_refused_with_the_field() {
    let (server, root) = guarded().await;
    let cases = [
        (json!({ "name": "x", "role": "king" }), "role"),
        (json!({ "name": "", "role": "viewer" }), "name"),
        (json!({ "name": "x", "role": "viewer", "may_exec": true }), "may_exec"),
        (json!({ "name": "x", "role": "viewer", "namespaces": ["weaver.internal"] }), "namespaces"),
        (json!({ "name": "x", "role": "viewer", "namespaces": [] }), "namespaces"),
        (json!({ "name": "x", "role": "viewer", "expires": 1 }), "expires"),
    ];
    for (new, field) in cases {
        let refused = ask(&server, &root, "POST", "/api/v1/tokens", &new.to_string()).await.expect(400);
        let message = refused.to_string();
        assert!(message.contains(field), "{new}: {message}");
    }
}

#[tokio::test]
async fn a_server_without_tokens_says_so() {
    let server = Server::start().await;
    let answer = server.get("/api/v1/tokens").await.expect(404);
    assert_eq!(answer["code"], "no_tokens");
}

#[tokio::test]
async fn a_token_without_may_exec_cannot_grant_it_or_enqueue_a_prompt() {
    let (server, plain) = guarded().await;
    let new = json!({ "name": "x", "role": "producer", "may_exec": true }).to_string();
    let refused = ask(&server, &plain, "POST", "/api/v1/tokens", &new).await.expect(403);
    assert_eq!(refused["code"], "exec_not_granted");
    for task_type in ["prompt", "exec"] {
        let task = json!({ "task_type": task_type, "payload": "x" }).to_string();
        let refused = ask(&server, &plain, "POST", "/api/v1/tasks", &task).await.expect(403);
        assert_eq!(refused["code"], "exec_not_granted", "{task_type}");
    }
    let schedule =
        json!({ "schedule": { "when": "every 1m" }, "task": { "task_type": "prompt", "payload": "x" } });
    let answer = ask(&server, &plain, "PUT", "/api/v1/schedules/p", &schedule.to_string()).await;
    assert_ne!(answer.status, 201, "{}", answer.body);
}
