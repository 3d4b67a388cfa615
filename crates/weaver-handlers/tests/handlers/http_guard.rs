//! `http`: SSRF protection, and credentials across redirects.

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::Redirect;
use axum::routing::get;
use parking_lot::Mutex;
use serde_json::json;
use weaver_core::prelude::*;
use weaver_handlers::HttpPolicy;

use crate::harness::{error, result};
use crate::http::{policy, run, serve};

/// A server that records the header fields of every request.
async fn noting() -> (String, Arc<Mutex<Vec<HeaderMap>>>) {
    let noted = Arc::<Mutex<Vec<HeaderMap>>>::default();
    let notes = Arc::clone(&noted);
    let note = move |headers: HeaderMap| async move { notes.lock().push(headers) };
    (serve(Router::new().fallback(note)).await, noted)
}

async fn refused(policy: HttpPolicy, url: &str) -> String {
    let record = run(policy, json!({"url": url}), TaskState::Dead).await;
    assert_eq!(record.executions, 1, "a refusal is final");
    error(&record)
}

#[tokio::test]
async fn an_internal_address_is_refused_and_never_connected_to() {
    let (url, noted) = noting().await;
    let said = refused(HttpPolicy::default(), &url).await;
    assert!(said.contains("a loopback address") && said.contains("`http.allow_networks`"), "{said}");
    let said = refused(HttpPolicy::default(), "http://169.254.169.254/latest/meta-data/").await;
    assert!(said.contains("metadata"), "{said}");
    assert!(noted.lock().is_empty());
}

#[tokio::test]
async fn a_name_that_resolves_to_an_internal_address_is_refused_and_never_connected_to() {
    let (url, noted) = noting().await;
    let url = url.replace("127.0.0.1", "localhost");
    let said = refused(HttpPolicy::default(), &url).await;
    assert!(said.contains("`localhost` is a loopback address"), "{said}");
    assert!(noted.lock().is_empty());
    // The same name is allowed if its address is.
    run(policy(), json!({"url": url}), TaskState::Succeeded).await;
    assert_eq!(noted.lock().len(), 1);
}

#[tokio::test]
async fn a_redirect_to_an_address_that_is_not_allowed_is_refused() {
    let (inner, noted) = noting().await;
    let inner = inner.replace("127.0.0.1", "127.0.0.2");
    for target in [inner, "http://10.0.0.1/".to_owned(), "http://169.254.169.254/".to_owned()] {
        let to = target.clone();
        let url = serve(Router::new().route("/", get(move || async move { Redirect::temporary(&to) }))).await;
        let only_one =
            HttpPolicy { allow_networks: vec!["127.0.0.1".parse().unwrap()], ..HttpPolicy::default() };
        let said = refused(only_one, &url).await;
        assert!(said.contains("does not allow"), "{target}: {said}");
    }
    assert!(noted.lock().is_empty());
}

#[tokio::test]
async fn other_schemes_and_user_names_are_refused_on_every_hop() {
    let said = refused(policy(), "file:///etc/passwd").await;
    assert!(said.contains("scheme `file`"), "{said}");
    let said = refused(policy(), "http://user:s3cret@127.0.0.1/").await;
    assert!(said.contains("user name") && !said.contains("s3cret"), "{said}");
    let to_file = || async { Redirect::temporary("file:///etc/passwd") };
    let url = serve(Router::new().route("/", get(to_file))).await;
    let said = refused(policy(), &url).await;
    assert!(said.contains("scheme `file`"), "{said}");
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_origin() {
    let (other, noted) = noting().await;
    let to = format!("{other}/?next");
    let url = serve(Router::new().route("/", get(move || async move { Redirect::temporary(&to) }))).await;
    let headers = json!({
        "Authorization": "Bearer s3cret",
        "Cookie": "s3cret",
        "X-Api-Key": "s3cret",
        "Accept": "text/html",
    });
    let record = run(policy(), json!({"url": url, "headers": headers}), TaskState::Succeeded).await;
    assert_eq!(result(&record)["redirects"], 1);
    let noted = noted.lock();
    assert_eq!((noted.len(), &noted[0]["accept"]), (1, &"text/html".parse().unwrap()));
    assert!(noted[0].values().all(|value| value != "s3cret" && value != "Bearer s3cret"), "{:?}", noted[0]);
}

#[tokio::test]
async fn an_invalid_request_is_dead_and_one_of_a_newer_version_is_retried() {
    let newer = json!({"url": "http://127.0.0.1/", "proxy": "of a newer version"});
    for (payload, state, said) in [
        (newer, TaskState::RetryScheduled, "proxy"),
        (json!({"url": "not a url"}), TaskState::Dead, "`url`"),
        (json!({"url": "http://127.0.0.1/", "headers": {"Host": "inner"}}), TaskState::Dead, "`Host`"),
    ] {
        let record = run(policy(), payload, state).await;
        assert!(error(&record).contains(said), "{}", error(&record));
    }
}
