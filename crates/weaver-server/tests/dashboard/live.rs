use std::time::Duration;

use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::{Browser, Look};
use crate::site::{Bed, Crew, Site};

const LIVE: &str = "document.querySelector('#live-mark').innerText === 'Live'";

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_on_another_screen_within_a_second_and_what_is_read_or_typed_stays_where_it_is() {
    let (bed, driver) = (Bed::embedded(), Driver::start());
    let site = Site::start(&bed).await;
    for queue in ["one", "two"] {
        site.enqueue(NewTask::new("nobody").queue(queue)).await;
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
    // A pause is no task's change; the tasks that come with it are.
    actor.click("[data-key=two] td.tap button").await;
    site.enqueue(NewTask::new("nobody").queue("two")).await;
    let took = reader.sees("[data-key=two]", "paused").await;
    assert!(took < Duration::from_secs(1), "another screen took {took:?}");
    let kept = "document.activeElement === window.typed && window.typed.value === '12'";
    reader.until(kept).await;

    // Somebody who reads further down a list sees rows change in place, and is told about those that came.
    for _ in 0..60 {
        site.enqueue(NewTask::new("nobody")).await;
    }
    reader.look(Look { height: 500, ..Look::default() }).await;
    reader.go(&site.url("/tasks")).await;
    reader.until(LIVE).await;
    reader.script("scrollTo(0, 600)").await;
    let place = "return document.querySelector('#rows tr:nth-child(25)').getBoundingClientRect().top";
    let (id, before) = (reader.text("#rows tr:nth-child(25) a").await, reader.script(place).await);
    site.enqueue(NewTask::new("nobody")).await;
    site.store
        .cancel(&TaskKey { namespace: Namespace::default(), id: id.parse().expect("as the test expects") })
        .await
        .expect("as the test expects");
    let took = reader.sees("#rows tr:nth-child(25)", "cancelled").await;
    assert!(took < Duration::from_secs(1), "a row took {took:?}");
    reader.sees("#notice", "1 more at the top").await;
    assert_eq!((reader.text("#rows tr:nth-child(25) a").await, reader.script(place).await), (id, before));
    assert_eq!(reader.complaints().await, Vec::<String>::new());
    actor.close().await;
    reader.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_shown_and_nothing_is_missed_when_the_server_comes_back() {
    let (bed, driver) = (Bed::embedded(), Driver::start());
    let site = Site::start(&bed).await;
    let address = site.address;
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.until(LIVE).await;
    site.stop().await;
    browser.until("document.querySelector('#live-mark').classList.contains('lost')").await;
    // Nobody hears of it.
    bed.store.enqueue(NewTask::new("nobody")).await.expect("as the test expects");
    let site = Site::listening(&bed, address).await;
    browser.until(LIVE).await;
    browser.sees("[data-key=queued] dd", "1").await;
    site.enqueue(NewTask::new("nobody")).await;
    browser.sees("[data-key=queued] dd", "2").await;
    browser.close().await;
    site.stop().await;
}

/// Five thousand changes a second for two seconds, beside somebody who types.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_events_does_not_freeze_a_page() {
    let (bed, driver) = (Bed::memory(), Driver::start());
    let site = Site::start(&bed).await;
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.until(LIVE).await;
    let mut all = 0;
    for page in ["/", "/tasks"] {
        browser.go(&site.url(page)).await;
        browser.until(LIVE).await;
        // The longest that the page did not answer, and how often it asked for itself.
        let watch = "window.gap = 0; let last = performance.now(); \
            const look = () => { const now = performance.now(); window.gap = Math.max(window.gap, now - last); last = now; setTimeout(look, 5); }; look(); \
            window.asked = 0; const fetched = window.fetch; window.fetch = (...all) => { window.asked++; return fetched(...all); }";
        browser.script(watch).await;
        let typed = if page == "/" { "" } else { "patience" };
        let (count, ()) = tokio::join!(flood(&bed), async {
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
        let (gap, asked) =
            (browser.script("return window.gap").await, browser.script("return window.asked").await);
        assert!(gap.as_f64().expect("as the test expects") < 500.0, "{page} stood still for {gap} ms");
        assert!(asked.as_u64().expect("as the test expects") < 20, "{page} asked for itself {asked} times");
    }
    browser.close().await;
}

async fn flood(bed: &Bed) -> u64 {
    let began = bed.clock.monotonic();
    let mut count = 0;
    while bed.clock.monotonic().0 - began.0 < Duration::from_secs(2) {
        let tasks = (0..500).map(|_| NewTask::new("nobody")).collect();
        bed.store.enqueue_batch(tasks).await.expect("as the test expects");
        count += 500;
        bed.clock.sleep_until(began.saturating_add(Duration::from_micros(count * 200))).await;
    }
    count
}

/// Whoever types a limit that somebody else sets meanwhile is told, rather than overwriting what they did not
/// see.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_people_who_set_the_same_limit_the_second_is_told() {
    let (bed, driver) = (Bed::memory(), Driver::start());
    let site = Site::start(&bed).await;
    site.enqueue(NewTask::new("nobody").queue("one")).await;
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
    // The other page hears of something, and is drawn anew.
    site.enqueue(NewTask::new("nobody").queue("two")).await;
    second.sees("[data-key=two]", "two").await;
    second.click("[data-key=one] button[value=limit]").await;
    second.sees("main", "What to do").await;
    let queues = site.store.list_queues(&Namespace::default()).await.expect("as the test expects");
    let one = queues.iter().find(|queue| queue.name.as_str() == "one").expect("as the test expects");
    assert_eq!(one.settings.max_running, Some(7));
    first.close().await;
    second.close().await;
}

/// A browser gives a server six connections, and a running task's page uses two of them.
#[tokio::test(flavor = "multi_thread")]
async fn pages_that_were_left_or_lie_in_other_tabs_keep_nobody_waiting() {
    let (bed, driver) = (Bed::memory(), Driver::start());
    let site = Site::start(&bed).await;
    let (_crew, _lines) = Crew::start(&bed);
    let task = site.enqueue(NewTask::new("spoken")).await;
    let page = site.url(&format!("/tasks/{}", task.id));
    let browser = Browser::with_windows(&driver).await;
    browser.enter(&site.link(Role::Viewer).await).await;
    browser.sees("h1", "Overview").await;
    let began = bed.clock.monotonic();
    for number in 0..16 {
        if number >= 8 {
            browser.tab().await;
        }
        browser.go(&page).await;
        browser.until(LIVE).await;
    }
    let took = bed.clock.monotonic().0 - began.0;
    assert!(took < Duration::from_secs(15), "sixteen pages took {took:?}");
    // The way back leads to a page that lives again.
    browser.go(&site.url("/tasks")).await;
    browser.back().await;
    browser.until(LIVE).await;
    site.store.cancel(&task).await.expect("an end");
    browser.sees("h1", "cancelled").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_whole_without_a_script() {
    let (bed, driver) = (Bed::memory(), Driver::start());
    let site = Site::start(&bed).await;
    let (_crew, _lines) = Crew::start(&bed);
    let task = site.enqueue(NewTask::new("broken")).await;
    let browser = Browser::open(&driver).await;
    browser.tool("Emulation.setScriptExecutionDisabled", serde_json::json!({"value": true})).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    browser.press("Tasks").await;
    browser.sees("#rows", "broken").await;
    browser.go(&site.url(&format!("/tasks/{}", task.id))).await;
    browser.sees(".why", "no such recipient").await;
    browser.press("Retry as a new task").await;
    browser.sees(".timeline", "as a repetition").await;
    browser.press("Queues").await;
    browser.click("[data-key=default] td.tap button").await;
    browser.sees("[data-key=default]", "paused").await;
    browser.close().await;
}
