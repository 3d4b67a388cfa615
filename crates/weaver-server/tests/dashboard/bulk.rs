//! Bulk actions by filter, through the API as the CLI uses it.

use serde_json::{Value, json};
use weaver_core::prelude::*;
use weaver_server::security::Role;

use crate::browser::http;
use crate::site::{Harness, Site};

async fn bulk(site: &Site, token: &str, path: &str, dry_run: bool) -> (u16, Value) {
    let request = http(reqwest::redirect::Policy::none())
        .post(site.url(path))
        .bearer_auth(token)
        .json(&json!({ "dry_run": dry_run }));
    let answer = request.send().await.expect("as the test expects");
    (answer.status().as_u16(), answer.json().await.expect("as the test expects"))
}

#[tokio::test]
async fn tasks_are_cancelled_and_retried_by_filter_after_a_dry_run_that_changes_nothing() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    let token = site.token(Role::Operator).await;
    let token = token.expose();
    for number in 0..25 {
        let queue = if number % 5 == 0 { "keep" } else { "drop" };
        site.enqueue(NewTask::new("unhandled").queue(queue)).await;
    }
    let (status, answer) = bulk(&site, token, "/api/v1/bulk/cancel?queue=drop", true).await;
    assert_eq!((status, &answer["matched"], &answer["changed"]), (200, &json!(20), &json!(0)));
    let counts = site.store.counts_by_state(&Namespace::default()).await.expect("as the test expects");
    assert_eq!(counts.get(TaskState::Queued), 25);
    // A page at a time, each task once.
    let (_, first) = bulk(&site, token, "/api/v1/bulk/cancel?queue=drop&limit=12", false).await;
    let next = first["next"].as_str().expect("there are more");
    let (_, rest) = bulk(&site, token, &format!("/api/v1/bulk/cancel?queue=drop&cursor={next}"), false).await;
    assert_eq!(
        first["changed"].as_u64().expect("as the test expects")
            + rest["changed"].as_u64().expect("as the test expects"),
        20,
        "{first} {rest}"
    );
    let (_, again) = bulk(&site, token, "/api/v1/bulk/cancel?queue=drop", false).await;
    assert_eq!(again["matched"], 0, "finished tasks do not match");
    let (_, retried) = bulk(&site, token, "/api/v1/bulk/retry?queue=drop", false).await;
    assert_eq!(retried["changed"], 0, "without a state filter, only dead tasks are retried");
    let (_, retried) = bulk(&site, token, "/api/v1/bulk/retry?queue=drop&state=cancelled", false).await;
    assert_eq!(retried["changed"], 20);
    let counts = site.store.counts_by_state(&Namespace::default()).await.expect("as the test expects");
    assert_eq!((counts.get(TaskState::Queued), counts.get(TaskState::Cancelled)), (25, 20));
    let viewer = site.token(Role::Viewer).await;
    assert_eq!(bulk(&site, viewer.expose(), "/api/v1/bulk/cancel", true).await.0, 403);
}
