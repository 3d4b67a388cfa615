use std::time::Duration;

use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::{Browser, Viewport};
use crate::site::{Harness, Site, TestWorker};

const LIVE: &str = "document.querySelector('#live-mark').innerText === 'Live'";

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_shown_elsewhere_within_a_second_and_input_and_scroll_position_stay() {
    let (harness, driver) = (Harness::embedded(), Driver::start());
    let site = Site::start(&harness).await;
    for queue in ["one", "two"] {
        site.enqueue(NewTask::new("unhandled").queue(queue)).await;
    }
    let (actor, reader) = (Browser::open(&driver).await, Browser::open(&driver).await);
    actor.enter(&site.link(Role::Admin).await).await;
    reader.enter(&site.link(Role::Admin).await).await;
    actor.sees("h1", "Overview").await;
    reader.sees("h1", "Overview").await;
    actor.go(&site.url("/queues")).await;
    reader.go(&site.url("/queues")).await;
    reader.until(LIVE).await;
    reader.type_into("[data-key=one] input[name=max_running]", "12").await;
    reader.script("window.typed = document.activeElement").await;
    // A pause is not a change of a task, so it sends no event; the enqueue does.
    actor.click("[data-key=two] td.actions button").await;
    site.enqueue(NewTask::new("unhandled").queue("two")).await;
    let took = reader.sees("[data-key=two]", "paused").await;
    assert!(took < Duration::from_secs(1), "another screen took {took:?}");
    let kept = "document.activeElement === window.typed && window.typed.value === '12'";
    reader.until(kept).await;

    // While the list is scrolled down, rows change in place and new ones are only announced.
    for _ in 0..60 {
        site.enqueue(NewTask::new("unhandled")).await;
    }
    reader.set_viewport(Viewport { height: 500, ..Viewport::default() }).await;
    reader.go(&site.url("/tasks")).await;
    reader.until(LIVE).await;
    reader.script("scrollTo(0, 600)").await;
    let place = "return document.querySelector('#rows tr:nth-child(25)').getBoundingClientRect().top";
    let (id, before) = (reader.text("#rows tr:nth-child(25) a").await, reader.script(place).await);
    site.enqueue(NewTask::new("unhandled")).await;
    site.store
        .cancel(&TaskKey::new(Namespace::default(), id.parse().expect("as the test expects")))
        .await
        .expect("as the test expects");
    let took = reader.sees("#rows tr:nth-child(25)", "cancelled").await;
    assert!(took < Duration::from_secs(1), "a row took {took:?}");
    reader.sees("#notice", "Show 1 new row").await;
    assert_eq!((reader.text("#rows tr:nth-child(25) a").await, reader.script(place).await), (id, before));
    assert_eq!(reader.complaints().await, Vec::<String>::new());
    actor.close().await;
    reader.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_shown_and_no_change_is_missed_after_reconnecting() {
    let (harness, driver) = (Harness::embedded(), Driver::start());
    let site = Site::start(&harness).await;
    let address = site.address;
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.until(LIVE).await;
    site.stop().await;
    browser.until("document.querySelector('#live-mark').classList.contains('lost')").await;
    // While no server is listening.
    harness.store.enqueue(NewTask::new("unhandled")).await.expect("as the test expects");
    let site = Site::listening(&harness, address).await;
    browser.until(LIVE).await;
    browser.sees("[data-key=queued] dd", "1").await;
    site.enqueue(NewTask::new("unhandled")).await;
    browser.sees("[data-key=queued] dd", "2").await;
    browser.close().await;
    site.stop().await;
}

/// Five thousand changes a second for two seconds, while the user types.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_events_does_not_freeze_a_page() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.until(LIVE).await;
    let mut all = 0;
    for page in ["/", "/tasks"] {
        browser.go(&site.url(page)).await;
        browser.until(LIVE).await;
        // The longest time that the page was blocked, and how often it fetched itself.
        let watch = "window.gap = 0; let last = performance.now(); \
            const look = () => { const now = performance.now(); window.gap = Math.max(window.gap, now - last); last = now; setTimeout(look, 5); }; look(); \
            window.requests = 0; const fetched = window.fetch; window.fetch = (...all) => { window.requests++; return fetched(...all); }";
        browser.script(watch).await;
        let typed = if page == "/" { "" } else { "patience" };
        let (count, ()) = tokio::join!(flood(&harness), async {
            for letter in typed.chars() {
                browser.type_into("input[name=queue]", &letter.to_string()).await;
            }
        });
        assert!(count >= 10_000, "{count} tasks in two seconds");
        all += count;
        if page == "/" {
            let shown = format!(
                "document.querySelector('[data-key=queued] dd').innerText.replace(/\\D/g, '') === '{all}'"
            );
            browser.until(&shown).await;
        } else {
            browser.until(&format!("document.querySelector('#rows a').innerText === '{all}'")).await;
            browser.until("document.querySelector('input[name=queue]').value === 'patience'").await;
        }
        let (gap, requests) =
            (browser.script("return window.gap").await, browser.script("return window.requests").await);
        assert!(gap.as_f64().expect("as the test expects") < 500.0, "{page} was blocked for {gap} ms");
        assert!(
            requests.as_u64().expect("as the test expects") < 20,
            "{page} fetched itself {requests} times"
        );
    }
    browser.close().await;
}

async fn flood(harness: &Harness) -> u64 {
    let began = harness.clock.monotonic();
    let mut count = 0;
    while harness.clock.monotonic().0 - began.0 < Duration::from_secs(2) {
        let tasks = (0..500).map(|_| NewTask::new("unhandled")).collect();
        harness.store.enqueue_batch(tasks).await.expect("as the test expects");
        count += 500;
        harness.clock.sleep_until(began.saturating_add(Duration::from_micros(count * 200))).await;
    }
    count
}

/// Optimistic concurrency: a limit that was changed meanwhile is not overwritten.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_users_who_set_the_same_limit_the_second_gets_a_conflict() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    site.enqueue(NewTask::new("unhandled").queue("one")).await;
    let (first, second) = (Browser::open(&driver).await, Browser::open(&driver).await);
    for browser in [&first, &second] {
        browser.enter(&site.link(Role::Admin).await).await;
        browser.sees("h1", "Overview").await;
        browser.go(&site.url("/queues")).await;
        browser.until(LIVE).await;
    }
    second.type_into("[data-key=one] input[name=max_running]", "12").await;
    first.type_into("[data-key=one] input[name=max_running]", "7").await;
    first.click("[data-key=one] button[value=limit]").await;
    first.until("document.querySelector('input[name=max_running]').getAttribute('value') === '7'").await;
    // The other page gets an event and refreshes.
    site.enqueue(NewTask::new("unhandled").queue("two")).await;
    second.sees("[data-key=two]", "two").await;
    second.click("[data-key=one] button[value=limit]").await;
    second.sees("main", "Hint:").await;
    let queues = site.store.list_queues(&Namespace::default()).await.expect("as the test expects");
    let one = queues.iter().find(|queue| queue.name.as_str() == "one").expect("as the test expects");
    assert_eq!(one.settings.max_running, Some(7));
    first.close().await;
    second.close().await;
}

/// Browsers open at most six connections per server, and the page of a running task uses two.
#[tokio::test(flavor = "multi_thread")]
async fn hidden_and_cached_pages_hold_no_connection() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    let (_worker, _lines) = TestWorker::start(&harness);
    let task = site.enqueue(NewTask::new("print_lines")).await;
    let page = site.url(&format!("/tasks/{}", task.id));
    let browser = Browser::with_windows(&driver).await;
    browser.enter(&site.link(Role::Viewer).await).await;
    browser.sees("h1", "Overview").await;
    let began = harness.clock.monotonic();
    for number in 0..16 {
        if number >= 8 {
            browser.tab().await;
        }
        browser.go(&page).await;
        browser.until(LIVE).await;
    }
    let took = harness.clock.monotonic().0 - began.0;
    assert!(took < Duration::from_secs(15), "sixteen pages took {took:?}");
    // The page from the back/forward cache refreshes again.
    browser.go(&site.url("/tasks")).await;
    browser.back().await;
    browser.until(LIVE).await;
    site.store.cancel(&task).await.expect("an end");
    browser.sees("h1", "cancelled").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_work_without_the_script() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    let (_worker, _lines) = TestWorker::start(&harness);
    let task = site.enqueue(NewTask::new("broken")).await;
    let browser = Browser::open(&driver).await;
    browser.tool("Emulation.setScriptExecutionDisabled", serde_json::json!({"value": true})).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    browser.press("Tasks").await;
    browser.sees("#rows", "broken").await;
    browser.go(&site.url(&format!("/tasks/{}", task.id))).await;
    browser.sees(".reasons", "no such recipient").await;
    browser.press("Retry as a new task").await;
    browser.sees(".timeline", "as a retry").await;
    browser.press("Queues").await;
    browser.click("[data-key=default] td.actions button").await;
    browser.sees("[data-key=default]", "paused").await;
    browser.close().await;
}
