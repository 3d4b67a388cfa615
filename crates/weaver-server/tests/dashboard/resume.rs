//! Where somebody was when the connection broke, and nothing in between is missed.

use std::time::Duration;

use reqwest::redirect::Policy;
use weaver_client::sse::SseReader;
use weaver_core::ports::StreamKey;
use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::{Browser, http};
use crate::site::{Bed, Crew, Site};

const LIVE: &str = "document.querySelector('#live-mark').innerText === 'Live'";
const LOST: &str = "document.querySelector('#live-mark').classList.contains('lost')";

/// A stream of events as a browser opens it, read until something is in it. Gives all of it.
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

/// The place that the last whole event left off at.
fn place(text: &str) -> String {
    let mut reader = SseReader::default();
    reader.push(text.as_bytes());
    std::iter::from_fn(|| reader.next_event()).last().expect("events have places").id
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event_that_was_heard_and_tells_each_change_once() {
    for bed in [Bed::embedded(), Bed::postgres().await] {
        let site = Site::start(&bed).await;
        let link = site.link(Role::Viewer).await;
        let answer = crate::login::redeem(&site, &link).await;
        let cookie = answer.headers()["set-cookie"].to_str().expect("a text");
        let cookie = cookie.split(';').next().expect("a cookie").to_owned();
        let greeting = listen(&site, &cookie, None, "\n\n").await;
        let first = site.enqueue(NewTask::new("nobody")).await.id.to_string();
        let second = site.enqueue(NewTask::new("nobody")).await.id.to_string();
        // Nobody listened while these came.
        let heard = listen(&site, &cookie, Some(&place(&greeting)), &format!("\"{second}\"")).await;
        assert!(heard.contains(&format!("\"{first}\"")), "{heard}");
        let third = site.enqueue(NewTask::new("nobody")).await.id.to_string();
        let heard = listen(&site, &cookie, Some(&place(&heard)), &format!("\"{third}\"")).await;
        assert!(!heard.contains(&format!("\"{first}\"")), "told twice: {heard}");
        site.stop().await;
    }
}

#[tokio::test]
async fn a_page_that_goes_on_after_an_id_that_is_none_reads_itself_again() {
    let bed = Bed::embedded();
    let site = Site::start(&bed).await;
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
async fn what_was_chosen_and_typed_stays_while_the_server_is_away_and_the_list_goes_on() {
    let (bed, driver) = (Bed::embedded(), Driver::start());
    let site = Site::start(&bed).await;
    let (address, chosen) = (site.address, site.enqueue(NewTask::new("nobody")).await.id);
    let other = site.enqueue(NewTask::new("nobody")).await;
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.sees("h1", "Overview").await;
    browser.go(&site.url("/tasks")).await;
    browser.until(LIVE).await;
    browser.click(&format!("#rows input[value=\"{chosen}\"]")).await;
    browser.type_into("input[name=queue]", "half a na").await;
    site.stop().await;
    browser.until(LOST).await;
    bed.store.cancel(&other).await.expect("an end");
    let site = Site::listening(&bed, address).await;
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
async fn a_log_has_every_line_once_after_the_server_was_away() {
    let (bed, driver) = (Bed::embedded(), Driver::start());
    let site = Site::start(&bed).await;
    let address = site.address;
    let (_crew, lines) = Crew::start(&bed);
    let task = site.enqueue(NewTask::new("spoken")).await;
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
    bed.store.append_entries(&log, &unheard).await.expect("entries");
    let site = Site::listening(&bed, address).await;
    browser.sees("#log", "line 49").await;
    lines.send("line 50".to_owned()).expect("it listens");
    browser.sees("#log", "line 50").await;
    let whole: String = (0..=50).map(|number| format!("line {number}\n")).collect();
    assert_eq!(browser.script("return document.querySelector('#log').textContent").await, whole);
    browser.close().await;
    site.stop().await;
}
