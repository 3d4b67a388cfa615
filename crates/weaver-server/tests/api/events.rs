use std::sync::Arc;

use serde_json::{Value, json};
use weaver_core::queue::memory::{InMemoryQueue, MemoryOptions};
use weaver_runtime::SystemClock;
use weaver_server::api::ApiLimits;

use crate::server::{Event, Server};

fn change(event: &Event) -> (String, String) {
    assert_eq!(event.name, "change");
    let data: Value = serde_json::from_str(&event.data).expect("JSON");
    (
        data["id"].as_str().expect("as the test expects").to_owned(),
        data["state"].as_str().expect("as the test expects").to_owned(),
    )
}

fn pair(id: &str, state: &str) -> (String, String) {
    (id.to_owned(), state.to_owned())
}

#[tokio::test]
async fn changes_of_the_namespace_arrive_as_they_happen_and_no_others() {
    let server = Server::start().await;
    let mut events = server.events("/api/v1/events?namespace=n", "").await;
    assert_eq!(events.next().await.unwrap().comment, "listening");
    server.enqueue(json!({ "namespace": "other" })).await;
    let id = server.enqueue(json!({ "namespace": "n" })).await;
    server.post_empty(&format!("/api/v1/tasks/{id}/cancel?namespace=n")).await.expect(200);
    assert_eq!(change(&events.data().await), pair(&id, "queued"));
    assert_eq!(change(&events.data().await), pair(&id, "cancelled"));
}

#[tokio::test]
async fn a_client_that_resumes_with_an_id_gets_exactly_the_later_changes() {
    let server = Server::start().await;
    let mut events = server.events("/api/v1/events", "").await;
    let start = events.next().await.unwrap().id;
    for _ in 0..3 {
        server.enqueue(json!({})).await;
    }
    let second = {
        events.data().await;
        events.data().await.id
    };
    drop(events);
    let mut again = server.events("/api/v1/events", &format!("Last-Event-ID: {second}\r\n")).await;
    assert_eq!(change(&again.data().await), pair("3", "queued"));
    let mut from_start = server.events("/api/v1/events", &format!("Last-Event-ID: {start}\r\n")).await;
    assert_eq!(change(&from_start.data().await), pair("1", "queued"));
}

#[tokio::test]
async fn a_client_that_resumes_too_late_gets_a_resync_and_continues() {
    let clock = Arc::new(SystemClock::new());
    let options = MemoryOptions { change_log_capacity: 2, ..MemoryOptions::default() };
    let store = Arc::new(InMemoryQueue::with_options(clock.clone(), options));
    let server = Server::over(store, clock, ApiLimits::default()).await;
    let start = server.events("/api/v1/events", "").await.next().await.unwrap().id;
    for _ in 0..3 {
        server.enqueue(json!({})).await;
    }
    for late in [start.as_str(), "dead.1"] {
        let mut events = server.events("/api/v1/events", &format!("Last-Event-ID: {late}\r\n")).await;
        let resync = events.data().await;
        assert_eq!((resync.name.as_str(), resync.id.is_empty()), ("resync", false));
        let id = server.enqueue(json!({})).await;
        assert_eq!(change(&events.data().await), pair(&id, "queued"));
    }
}

#[tokio::test]
async fn an_id_that_is_none_is_refused() {
    let server = Server::start().await;
    for id in ["what", "", "7", "caf\u{e9}"] {
        server.refuses_event_id("/api/v1/events", id).await;
    }
}

#[tokio::test]
async fn an_idle_stream_sends_keep_alive_comments() {
    let (server, clock) = Server::on_manual_clock().await;
    let mut events = server.events("/api/v1/events", "").await;
    assert_eq!(events.next().await.unwrap().comment, "listening");
    // The stream may not wait yet: the clock advances until it does.
    let comment = tokio::select! {
        event = events.next() => event.unwrap().comment,
        () = async { loop { clock.advance(server.state.limits.heartbeat); tokio::task::yield_now().await; } } => unreachable!(),
    };
    assert_eq!(comment, "alive");
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let server = Server::start().await;
    let mut events = server.events("/api/v1/events", "").await;
    events.next().await.unwrap();
    server.stop().await;
    let end = events.data().await;
    assert!(end.name == "end" && end.data.contains("\"stopping\""), "{end:?}");
    assert_eq!(events.next().await, None);
}
