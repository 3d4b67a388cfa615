//! `http`: from responses to outcomes.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, get};
use serde_json::json;
use weaver_core::prelude::*;
use weaver_handlers::HttpPolicy;

use crate::harness::{Harness, error, in_time, result};

/// A server on a free port, which ends with the test's runtime. Returns its URL.
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
pub(crate) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(tokio::spawn(async move { axum::serve(listener, router).await }));
    format!("http://{address}")
}

/// Tests run on loopback.
pub(crate) fn policy() -> HttpPolicy {
    HttpPolicy { allow_networks: vec!["127.0.0.0/8".parse().unwrap()], ..HttpPolicy::default() }
}

pub(crate) fn task(payload: &serde_json::Value) -> NewTask {
    NewTask::new("http").json(payload).unwrap()
}

pub(crate) async fn run(policy: HttpPolicy, payload: serde_json::Value, state: TaskState) -> TaskRecord {
    let harness = Harness::new();
    harness.run(harness.http(policy), task(&payload), state).await
}

/// Responds with what it was sent.
async fn echo(method: Method, headers: HeaderMap, body: Bytes) -> axum::Json<serde_json::Value> {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let (content_type, token) = (header("content-type"), header("x-token"));
    let body = String::from_utf8(body.to_vec()).unwrap();
    axum::Json(json!({"method": method.as_str(), "type": content_type, "token": token, "body": body}))
}

#[tokio::test]
async fn a_successful_call_keeps_status_headers_and_body_and_is_logged() {
    let harness = Harness::new();
    let url = serve(Router::new().route("/echo", any(echo))).await;
    let payload = json!({
        "url": format!("{url}/echo?key=s3cret"),
        "method": "put",
        "headers": {"X-Token": "t0ken"},
        "body": {"a": [1]},
    });
    let record = harness.run(harness.http(policy()), task(&payload), TaskState::Succeeded).await;
    let kept = result(&record);
    assert_eq!((&kept["status"], &kept["body_cut"]), (&json!(200), &json!(false)));
    assert_eq!(kept["headers"], json!({"content-type": "application/json"}));
    let sent: serde_json::Value = serde_json::from_str(kept["body"].as_str().unwrap()).unwrap();
    assert_eq!(
        sent,
        json!({"method": "PUT", "type": "application/json", "token": "t0ken", "body": "{\"a\":[1]}"})
    );
    let log = harness.log(&record.key, 1).await;
    assert_eq!(log, [format!("PUT {url}/echo: 200 OK after 0 redirects")]);
}

#[tokio::test]
async fn a_text_is_sent_as_it_is() {
    let url = serve(Router::new().route("/", any(echo))).await;
    let record = run(policy(), json!({"url": url, "body": "plain é"}), TaskState::Succeeded).await;
    let sent: serde_json::Value = serde_json::from_str(result(&record)["body"].as_str().unwrap()).unwrap();
    let expected =
        json!({"method": "POST", "type": "text/plain; charset=utf-8", "token": null, "body": "plain é"});
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn retry_after_is_the_delay_of_the_next_attempt() {
    // The test's clock stands at 2026-01-01T00:00:00Z.
    for (status, header, delay) in [
        (StatusCode::TOO_MANY_REQUESTS, "77", 77),
        (StatusCode::SERVICE_UNAVAILABLE, "Thu, 01 Jan 2026 01:00:00 GMT", 3600),
        (StatusCode::SERVICE_UNAVAILABLE, "99999999999", 86_400),
    ] {
        let harness = Harness::new();
        let answer = move || async move { (status, [("retry-after", header)], "busy") };
        let url = serve(Router::new().route("/", get(answer))).await;
        let record =
            harness.run(harness.http(policy()), task(&json!({"url": url})), TaskState::RetryScheduled).await;
        assert_eq!(record.next_run_at().unwrap().since(harness.clock.now()), Duration::from_secs(delay));
        assert_eq!(error(&record), format!("GET {url}/: {status}: busy"));
    }
}

#[tokio::test]
async fn other_statuses_are_retried_by_the_tasks_own_policy() {
    let harness = Harness::new();
    let answer = || async { (StatusCode::NOT_FOUND, [("retry-after", "7777")], "") };
    let url = serve(Router::new().route("/", get(answer))).await;
    let own = task(&json!({"url": url})).retry(RetryPolicy::Fixed { delay: Duration::from_secs(33) });
    let record = harness.run(harness.http(policy()), own, TaskState::RetryScheduled).await;
    assert_eq!(record.next_run_at().unwrap().since(harness.clock.now()), Duration::from_secs(33));
    assert_eq!((record.failures, error(&record)), (1, format!("GET {url}/: 404 Not Found")));
}

#[tokio::test]
async fn a_fatal_status_is_dead_at_once() {
    let url = serve(Router::new().route("/", get(|| async { (StatusCode::GONE, "no more") }))).await;
    let record = run(policy(), json!({"url": url, "fatal_statuses": [404, 410]}), TaskState::Dead).await;
    assert_eq!((record.executions, error(&record)), (1, format!("GET {url}/: 410 Gone: no more")));
}

#[tokio::test]
async fn a_task_can_choose_the_statuses_it_expects() {
    let router = Router::new().route("/", get(|| async { Redirect::to("/elsewhere") }));
    let url = serve(router.route("/ok", get(|| async { "fine" }))).await;
    let record = run(policy(), json!({"url": url, "expect": [303]}), TaskState::Succeeded).await;
    assert_eq!(
        (&result(&record)["status"], &result(&record)["headers"]["location"]),
        (&json!(303), &json!("/elsewhere"))
    );
    let payload = json!({"url": format!("{url}/ok"), "expect": [204]});
    assert_eq!(run(policy(), payload, TaskState::RetryScheduled).await.failures, 1);
}

#[tokio::test]
async fn a_huge_body_is_truncated_at_a_character_and_the_rest_is_not_read() {
    let endless = || async {
        let chunk = Ok::<_, std::io::Error>(Bytes::from("é".repeat(500)));
        let chunks = futures_util::stream::repeat_with(move || chunk.as_ref().unwrap().clone());
        axum::body::Body::from_stream(futures_util::StreamExt::map(chunks, Ok::<_, std::io::Error>))
    };
    let url = serve(Router::new().route("/", get(endless))).await;
    let policy = HttpPolicy { body_max_bytes: 10_001, ..policy() };
    let record = run(policy, json!({"url": url}), TaskState::Succeeded).await;
    assert_eq!(result(&record)["body_cut"], true);
    assert_eq!(result(&record)["body"].as_str().unwrap(), "é".repeat(5000));
}

#[tokio::test]
async fn a_binary_body_is_stored_in_hex() {
    let url = serve(Router::new().route("/", get(|| async { vec![0, 255, 128, 10] }))).await;
    let record = run(policy(), json!({"url": url}), TaskState::Succeeded).await;
    assert_eq!(result(&record)["body"], json!({"hex": "00ff800a"}));
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_a_failure() {
    let harness = Harness::new();
    let (asked, mut was_asked) = tokio::sync::mpsc::channel::<()>(1);
    let silent = move || async move {
        asked.send(()).await.unwrap();
        std::future::pending::<()>().await;
    };
    let url = serve(Router::new().route("/", get(silent))).await;
    let _running = harness.work(harness.http(policy()));
    let key = harness.enqueue(task(&json!({"url": url, "timeout_ms": 1500}))).await;
    in_time("the server is asked", was_asked.recv()).await.unwrap();
    harness.clock.advance(Duration::from_millis(1500));
    let record = harness.until(&key, TaskState::RetryScheduled).await;
    assert_eq!(error(&record), format!("GET {url}/: no complete response within 1500 ms"));
}

#[tokio::test]
async fn a_refused_connection_is_a_failure_whose_message_has_no_query() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/?token=s3cret", listener.local_addr().unwrap());
    drop(listener);
    let record = run(policy(), json!({"url": url}), TaskState::RetryScheduled).await;
    assert!(error(&record).contains("refused") && !error(&record).contains("s3cret"), "{}", error(&record));
}

#[tokio::test]
async fn an_https_call_to_a_server_without_tls_fails() {
    let url = serve(Router::new().route("/", any(echo))).await.replace("http:", "https:");
    let record = run(policy(), json!({"url": url, "body": "s3cret"}), TaskState::RetryScheduled).await;
    assert!(error(&record).contains("InvalidContentType"), "{}", error(&record));
}

#[tokio::test]
async fn redirects_are_followed_as_browsers_do_up_to_the_limit() {
    let router = Router::new()
        .route("/seen", any(echo))
        .route("/see-other", any(|| async { Redirect::to("/seen") }))
        .route("/again", any(|| async { Redirect::temporary("/seen") }))
        .route("/loop", any(|| async { Redirect::temporary("/loop").into_response() }));
    let url = serve(router).await;
    for (path, method, body) in [("see-other", "GET", ""), ("again", "POST", "x")] {
        let payload = json!({"url": format!("{url}/{path}"), "body": "x", "headers": {"X-Token": "t"}});
        let record = run(policy(), payload, TaskState::Succeeded).await;
        let sent: serde_json::Value =
            serde_json::from_str(result(&record)["body"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&sent["method"], &sent["body"], &sent["token"]),
            (&json!(method), &json!(body), &json!("t"))
        );
        assert_eq!(result(&record)["redirects"], 1);
    }
    let record = run(policy(), json!({"url": format!("{url}/loop")}), TaskState::RetryScheduled).await;
    assert!(error(&record).contains("more than 5 redirects"), "{}", error(&record));
}
