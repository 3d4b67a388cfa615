//! Selected rows stay selected while the list changes.

use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::site::{Harness, Site};

/// Counts how often the page fetches itself, and the latest fetch that was rendered.
const COUNT: &str = "window.requests = window.rendered = 0; const fetched = window.fetch; window.fetch = async (...all) => { \
    const number = ++window.requests, response = await fetched(...all); setTimeout(() => { window.rendered = number; }, 60); return response; }";

#[tokio::test(flavor = "multi_thread")]
async fn selected_rows_stay_selected_while_the_list_changes_on_the_embedded_store() {
    selecting(&Harness::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selected_rows_stay_selected_while_the_list_changes_on_postgresql() {
    selecting(&Harness::postgres().await).await;
}

async fn selecting(harness: &Harness) {
    let (site, driver) = (Site::start(harness).await, Driver::start());
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.sees("h1", "Overview").await;
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(site.enqueue(NewTask::new("unhandled").queue("later")).await);
    }
    let boxes = [&tasks[1], &tasks[4]].map(|key| format!("#rows input[value=\"{}\"]", key.id));
    for round in 0..5 {
        browser.go(&site.url("/tasks?queue=later&state=queued")).await;
        for wanted in &boxes {
            // The list changes between finding a row and clicking it.
            tasks.push(site.enqueue(NewTask::new("unhandled").queue("later")).await);
            browser.click(wanted).await;
        }
        assert_eq!(selected(&browser).await, 2, "in round {round}");
    }
    browser.script(COUNT).await;
    // More new rows than fit on a page.
    for _ in 0..3 {
        let more = (0..30).map(|_| NewTask::new("unhandled").queue("later")).collect();
        let more = site.store.enqueue_batch(more).await.expect("tasks");
        tasks.extend(more.into_iter().map(|enqueued| enqueued.expect("a task").key));
        refreshed(&browser).await;
        assert_eq!(selected(&browser).await, 2, "after new rows");
    }
    browser.sees("#notice", "new rows").await;
    // A selected task no longer matches the filter; then none does, and the list would be empty.
    site.store.cancel(&tasks[1]).await.expect("an end");
    refreshed(&browser).await;
    assert_eq!(selected(&browser).await, 2, "after one of them stopped matching");
    for key in tasks.iter().filter(|key| **key != tasks[1]) {
        site.store.cancel(key).await.expect("an end");
    }
    refreshed(&browser).await;
    assert_eq!(selected(&browser).await, 2, "after all stopped matching");
    browser.press("Cancel 2").await;
    browser.sees("h1", "Cancel 2 tasks?").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
    site.stop().await;
}

async fn selected(browser: &Browser) -> u64 {
    let count = browser.script("return document.querySelectorAll('input[name=id]:checked').length").await;
    count.as_u64().expect("a number")
}

/// Waits until a fetch that began after this call is rendered.
async fn refreshed(browser: &Browser) {
    let before = browser.script("return window.requests").await;
    browser.until(&format!("window.rendered > {before}")).await;
}
