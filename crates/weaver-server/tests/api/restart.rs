use serde_json::json;

use crate::server::{Directory, Server};

#[tokio::test]
async fn a_lease_survives_a_restart_of_the_server_and_its_store() {
    let directory = Directory::new();
    let server = Server::on_disk(directory.path()).await;
    server.enqueue(json!({ "payload": "keep me" })).await;
    let leased = server.lease(7).await;
    server.stop().await;

    let server = Server::on_disk(directory.path()).await;
    // The call whose response was lost is repeated, and returns the same lease.
    assert_eq!(server.lease(7).await["lease"], leased["lease"]);
    let renewals = json!({ "renewals": [{ "lease": leased["lease"] }] });
    assert_eq!(
        server.post("/api/v1/work/renew", &renewals).await.expect(200)["results"],
        json!(["extended"])
    );
    let ends = json!({ "ends": [{ "lease": leased["lease"], "outcome": "succeeded", "result": 42 }] });
    server.post("/api/v1/work/finish", &ends).await.expect(200);
    server.stop().await;

    let server = Server::on_disk(directory.path()).await;
    // The report is repeated too, and recorded once.
    let again = server.post("/api/v1/work/finish", &ends).await.expect(200);
    assert_eq!(again["results"][0], json!({ "status": "recorded", "state": "succeeded" }));
    let task = server.get("/api/v1/tasks/1").await.expect(200);
    assert_eq!(
        (&task["payload"], &task["result"], &task["executions"]),
        (&json!("keep me"), &json!(42), &json!(1))
    );
}

#[tokio::test]
async fn a_stream_of_events_resyncs_after_a_restart() {
    let directory = Directory::new();
    let server = Server::on_disk(directory.path()).await;
    let mut events = server.events("/api/v1/events", "").await;
    server.enqueue(json!({})).await;
    let last = events.data().await.id;
    server.stop().await;
    let server = Server::on_disk(directory.path()).await;
    let mut events = server.events("/api/v1/events", &format!("Last-Event-ID: {last}\r\n")).await;
    assert_eq!(events.data().await.name, "resync");
}

#[tokio::test]
async fn acknowledged_changes_and_their_audit_entries_survive_a_restart() {
    let directory = Directory::new();
    let server = Server::on_disk(directory.path()).await;
    server.enqueue(json!({ "queue": "q" })).await;
    server.post_empty("/api/v1/queues/q/pause").await.expect(200);
    server.stop().await;
    let server = Server::on_disk(directory.path()).await;
    assert_eq!(server.get("/api/v1/tasks/1").await.expect(200)["state"], "queued");
    assert_eq!(server.get("/api/v1/queues").await.expect(200)["items"][0]["paused"], true);
    let audit = server.get("/api/v1/audit").await.expect(200);
    assert_eq!(audit["entries"].as_array().unwrap().len(), 2);
}
