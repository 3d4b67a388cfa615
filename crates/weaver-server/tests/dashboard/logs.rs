use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::site::{Harness, Site, TestWorker};

#[tokio::test(flavor = "multi_thread")]
async fn a_log_follows_new_lines_in_their_colours_and_can_be_downloaded() {
    let (harness, driver) = (Harness::embedded(), Driver::start());
    let site = Site::start(&harness).await;
    let (_worker, lines) = TestWorker::start(&harness);
    let task = site.enqueue(NewTask::new("print_lines")).await;
    lines.send("the first line".to_owned()).expect("as the test expects");
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Viewer).await).await;
    browser.sees("h1", "Overview").await;
    browser.go(&site.url(&format!("/tasks/{}", task.id))).await;
    browser.sees("#log", "the first line").await;
    for number in 0..200 {
        lines.send(format!("line {number}")).expect("as the test expects");
    }
    lines
        .send("\u{1b}[1;31mred <b>bold</b>\u{1b}[0m \u{1b}]8;;javascript:alert(1)\u{7}link".to_owned())
        .expect("as the test expects");
    browser.sees("#log .c1.b", "red <b>bold</b>").await;
    // It scrolls to the end, unless following is switched off.
    browser.until("document.querySelector('#log').scrollTop > 1000").await;
    assert_eq!(browser.script("return document.querySelectorAll('#log b, #log a').length").await, 0);
    browser.click("#follow").await;
    browser.script("document.querySelector('#log').scrollTop = 0").await;
    lines.send("after that".to_owned()).expect("as the test expects");
    browser.until("document.querySelector('#log').textContent.includes('after that')").await;
    assert_eq!(browser.script("return document.querySelector('#log').scrollTop").await, 0);
    browser.click("#wrap").await;
    browser.until("getComputedStyle(document.querySelector('#log')).whiteSpace.includes('wrap')").await;
    drop(lines);
    browser.sees("h1", "succeeded").await;
    let file = "fetch(document.querySelector('a[download]').href).then((a) => a.text()).then((t) => window.file = t)";
    browser.script(file).await;
    browser
        .until("window.file.split('\\n').length === 204 && window.file.startsWith('the first line\\n')")
        .await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}
