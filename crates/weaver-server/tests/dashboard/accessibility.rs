use serde_json::Value;
use weaver_core::prelude::*;
use weaver_server::security::Role;
use weaver_testkit::services::browser::{Driver, axe_script};

use crate::browser::{Browser, Viewport};
use crate::site::{Harness, Site, TestWorker};

const RUN: &str = "axe.run({ resultTypes: ['violations'] }).then((r) => { window.found = r.violations.map((v) => \
    `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html).join(' | ')}`); })";

pub(crate) async fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.script(axe).await;
    browser.script("window.found = null").await;
    browser.script(RUN).await;
    browser.until("Array.isArray(window.found)").await;
    let found = browser.script("return window.found").await;
    found
        .as_array()
        .expect("as the test expects")
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible_in_light_and_dark_and_fits_a_phone() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    let (_worker, lines) = TestWorker::start(&harness);
    let group = "a-group-with-a-rather-long-name-that-has-no-place-to-break-".repeat(3);
    let dead = site.enqueue(NewTask::new("broken").task_group_id(group.clone())).await;
    let print_lines = site.enqueue(NewTask::new("print_lines")).await;
    site.enqueue(NewTask::new(format!("long-{group}")).queue(group.clone())).await;
    site.enqueue(NewTask::new("slow").label("team", "blue")).await;
    lines.send(format!("\u{1b}[32mgreen\u{1b}[0m {}", "long ".repeat(200))).expect("as the test expects");
    let browser = Browser::open(&driver).await;
    browser.go(&site.url("/login")).await;
    let axe = axe_script();
    assert_eq!(violations(&browser, &axe).await, Vec::<String>::new(), "login");
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("[data-key=dead] dd", "1").await;
    let pages = [
        "/".to_owned(),
        "/tasks".to_owned(),
        "/tasks?state=orphaned".to_owned(),
        format!("/tasks/{}", dead.id),
        format!("/tasks/{}", print_lines.id),
        "/queues".to_owned(),
        "/quarantine".to_owned(),
        "/groups".to_owned(),
        format!("/group?id={group}"),
        "/workers".to_owned(),
        "/tokens".to_owned(),
        "/audit".to_owned(),
        "/no/such/page".to_owned(),
    ];
    for (dark, width) in [(false, 1280), (true, 1280), (false, 375)] {
        browser.set_viewport(Viewport { width, height: 800, dark }).await;
        for page in &pages {
            browser.go(&site.url(page)).await;
            browser.until("document.readyState === 'complete'").await;
            if width == 375 {
                let wide = browser.script("return document.documentElement.scrollWidth").await;
                assert!(
                    wide.as_u64().expect("as the test expects") <= 375,
                    "{page} is {wide} px wide on a phone"
                );
            } else {
                assert_eq!(violations(&browser, &axe).await, Vec::<String>::new(), "{page}, dark: {dark}");
            }
        }
    }
    // By keyboard: the first stop is the skip link.
    browser.set_viewport(Viewport::default()).await;
    browser.go(&site.url("/tasks")).await;
    browser.type_into("body", "\u{e004}").await;
    assert_eq!(browser.script("return document.activeElement.className").await, "skip");
    browser.close().await;
}
