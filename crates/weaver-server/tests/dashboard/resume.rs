//! Resuming after a lost connection without missing a change.

use std::time::Duration;

use reqwest::redirect::Policy;
use weaver_client::sse::SseReader;
use weaver_core::ports::StreamKey;
use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::{Browser, http};
use crate::site::{Harness, Site, TestWorker};

const LIVE: &str = "document.querySelector('#live-mark').innerText === 'Live'";
const LOST: &str = "document.querySelector('#live-mark').classList.contains('lost')";

/// Opens the event stream as a browser does, and reads until it contains `until`. Returns all of it.
async fn listen(site: &Site, cookie: &str, last: Option<&str>, until: &str) -> String {
    let request = http(Policy::none()).get(site.url("/live")).header("cookie", cookie);
    let request = last.into_iter().fold(request, |request, last| request.header("last-event-id", last));
    let mut answer = request.send().await.expect("the server answers");
    assert_eq!(answer.status().as_u16(), 200);
    let mut text = String::new();
    let reading = async {
        while !text.contains(until) {
            let more = answer.chunk().await.expect("it goes on").expect("it goes on");
            text.push_str(&String::from_utf8_lossy(&more));
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reading).await.unwrap_or_else(|_| panic!("no {until}"));
    text
}

/// The id of the last complete event.
fn place(text: &str) -> String {
    let mut reader = SseReader::default();
    reader.push(text.as_bytes());
    std::iter::from_fn(|| reader.next_event()).last().expect("events have places").id
}

#[tokio::test]
async fn a_stream_resumes_after_the_last_event_received_and_sends_each_change_once() {
    for harness in [Harness::embedded(), Harness::postgres().await] {
        let site = Site::start(&harness).await;
        let link = site.link(Role::Viewer).await;
        let answer = crate::login::redeem(&site, &link).await;
        let cookie = answer.headers()["set-cookie"].to_str().expect("a text");
        let cookie = cookie.split(';').next().expect("a cookie").to_owned();
        let greeting = listen(&site, &cookie, None, "\n\n").await;
        let first = site.enqueue(NewTask::new("unhandled")).await.id.to_string();
        let second = site.enqueue(NewTask::new("unhandled")).await.id.to_string();
        // No stream was open while these were enqueued.
        let heard = listen(&site, &cookie, Some(&place(&greeting)), &format!("\"{second}\"")).await;
        assert!(heard.contains(&format!("\"{first}\"")), "{heard}");
        let third = site.enqueue(NewTask::new("unhandled")).await.id.to_string();
        let heard = listen(&site, &cookie, Some(&place(&heard)), &format!("\"{third}\"")).await;
        assert!(!heard.contains(&format!("\"{first}\"")), "sent twice: {heard}");
        site.stop().await;
    }
}

#[tokio::test]
async fn an_invalid_last_event_id_causes_a_resync() {
    let harness = Harness::embedded();
    let site = Site::start(&harness).await;
    let answer = crate::login::redeem(&site, &site.link(Role::Viewer).await).await;
    let cookie = answer.headers()["set-cookie"].to_str().expect("a text");
    let cookie = cookie.split(';').next().expect("a cookie").to_owned();
    for id in ["what", "dead.1"] {
        let heard = listen(&site, &cookie, Some(id), "event: resync").await;
        assert!(place(&heard) != id, "{heard}");
    }
    let heard = listen(&site, &cookie, None, "id: ").await;
    assert!(!heard.contains("resync"), "nothing was missed: {heard}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selection_and_input_survive_a_server_restart_and_the_list_resumes() {
    let (harness, driver) = (Harness::embedded(), Driver::start());
    let site = Site::start(&harness).await;
    let (address, selected) = (site.address, site.enqueue(NewTask::new("unhandled")).await.id);
    let other = site.enqueue(NewTask::new("unhandled")).await;
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.sees("h1", "Overview").await;
    browser.go(&site.url("/tasks")).await;
    browser.until(LIVE).await;
    browser.click(&format!("#rows input[value=\"{selected}\"]")).await;
    browser.type_into("input[name=queue]", "half a na").await;
    site.stop().await;
    browser.until(LOST).await;
    harness.store.cancel(&other).await.expect("an end");
    let site = Site::listening(&harness, address).await;
    browser.until(LIVE).await;
    browser.sees(&format!("[data-key=\"{}\"]", other.id), "cancelled").await;
    browser.until("document.querySelector('input[name=queue]').value === 'half a na'").await;
    browser.press("Cancel 1").await;
    browser.sees("h1", "Cancel 1 task?").await;
    browser.press("Cancel 1 task").await;
    browser.sees(".done", "1 task cancelled").await;
    browser.close().await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_has_every_line_once_after_a_server_restart() {
    let (harness, driver) = (Harness::embedded(), Driver::start());
    let site = Site::start(&harness).await;
    let address = site.address;
    let (_worker, lines) = TestWorker::start(&harness);
    let task = site.enqueue(NewTask::new("print_lines")).await;
    let log = StreamKey::attempt_log(&task, 1);
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Viewer).await).await;
    browser.sees("h1", "Overview").await;
    lines.send("line 0".to_owned()).expect("it listens");
    browser.go(&site.url(&format!("/tasks/{}", task.id))).await;
    browser.sees("#log", "line 0").await;
    site.stop().await;
    browser.until(LOST).await;
    let unheard: Vec<_> = (1..50).map(|number| format!("line {number}").into()).collect();
    harness.store.append_entries(&log, &unheard).await.expect("entries");
    let site = Site::listening(&harness, address).await;
    browser.sees("#log", "line 49").await;
    lines.send("line 50".to_owned()).expect("it listens");
    browser.sees("#log", "line 50").await;
    let whole: String = (0..=50).map(|number| format!("line {number}\n")).collect();
    assert_eq!(browser.script("return document.querySelector('#log').textContent").await, whole);
    browser.close().await;
    site.stop().await;
}
