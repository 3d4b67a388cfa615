//! Rows that somebody chose stay chosen, whatever happens to the list meanwhile.

use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::site::{Bed, Site};

/// Counts how often the page asks for itself, and which of these has been answered and drawn.
const COUNT: &str = "window.asked = window.drawn = 0; const fetched = window.fetch; window.fetch = async (...all) => { \
    const number = ++window.asked, answer = await fetched(...all); setTimeout(() => { window.drawn = number; }, 60); return answer; }";

#[tokio::test(flavor = "multi_thread")]
async fn chosen_rows_stay_chosen_whatever_happens_to_the_list_on_the_embedded_store() {
    choosing(&Bed::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_rows_stay_chosen_whatever_happens_to_the_list_on_postgresql() {
    choosing(&Bed::postgres().await).await;
}

async fn choosing(bed: &Bed) {
    let (site, driver) = (Site::start(bed).await, Driver::start());
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.sees("h1", "Overview").await;
    let mut tasks = Vec::new();
    for _ in 0..6 {
        tasks.push(site.enqueue(NewTask::new("nobody").queue("later")).await);
    }
    let boxes = [&tasks[1], &tasks[4]].map(|key| format!("#rows input[value=\"{}\"]", key.id));
    for round in 0..5 {
        browser.go(&site.url("/tasks?queue=later&state=queued")).await;
        for wanted in &boxes {
            // The list changes between looking at it and clicking.
            tasks.push(site.enqueue(NewTask::new("nobody").queue("later")).await);
            browser.click(wanted).await;
        }
        assert_eq!(chosen(&browser).await, 2, "in round {round}");
    }
    browser.script(COUNT).await;
    // New rows come, more than a page of them.
    for _ in 0..3 {
        let more = (0..30).map(|_| NewTask::new("nobody").queue("later")).collect();
        let more = site.store.enqueue_batch(more).await.expect("tasks");
        tasks.extend(more.into_iter().map(|made| made.expect("a task").key));
        refreshed(&browser).await;
        assert_eq!(chosen(&browser).await, 2, "when new rows came");
    }
    browser.sees("#notice", "more at the top").await;
    // One that was chosen leaves the filter; then everything does, and nothing would be left to show.
    site.store.cancel(&tasks[1]).await.expect("an end");
    refreshed(&browser).await;
    assert_eq!(chosen(&browser).await, 2, "when one of them left the filter");
    for key in tasks.iter().filter(|key| **key != tasks[1]) {
        site.store.cancel(key).await.expect("an end");
    }
    refreshed(&browser).await;
    assert_eq!(chosen(&browser).await, 2, "when nothing matched any more");
    browser.press("Cancel 2").await;
    browser.sees("h1", "Cancel 2 tasks?").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
    site.stop().await;
}

async fn chosen(browser: &Browser) -> u64 {
    let count = browser.script("return document.querySelectorAll('input[name=id]:checked').length").await;
    count.as_u64().expect("a number")
}

/// Until the page has been drawn anew after what just happened.
async fn refreshed(browser: &Browser) {
    let before = browser.script("return window.asked").await;
    browser.until(&format!("window.drawn > {before}")).await;
}
