//! Settings: read, changed, refused, reset; every change in the audit log.

use reqwest::StatusCode;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::login::{log_in, post};
use crate::site::{Harness, Site};

#[tokio::test(flavor = "multi_thread")]
async fn setting_changes_and_resets_are_in_the_audit_log_on_the_embedded_store() {
    walkthrough(&Harness::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_changes_and_resets_are_in_the_audit_log_on_postgresql() {
    walkthrough(&Harness::postgres().await).await;
}

async fn walkthrough(harness: &Harness) {
    let (site, driver) = (Site::start(harness).await, Driver::start());
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.sees("h1", "Overview").await;
    browser.press("Settings").await;
    browser
        .sees("main", "how many due schedules or events one tick handles".replacen('h', "H", 1).as_str())
        .await;
    let batch = "[id='scheduler.batch_max']";
    browser.script(&format!("document.querySelector(\"{batch} input[name=value]\").value = ''")).await;
    browser.type_into(&format!("{batch} input[name=value]"), "25").await;
    browser.click(&format!("{batch} button[value=set]")).await;
    browser.sees(&format!("{batch} h2"), "changed").await;
    browser.sees(batch, "Reset to 1000").await;
    // The browser does not submit a value out of range.
    browser.script(&format!("document.querySelector(\"{batch} input[name=value]\").value = '0'")).await;
    browser.click(&format!("{batch} button[value=set]")).await;
    browser.until(&format!("document.querySelector(\"{batch} input:invalid\") !== null")).await;
    browser.click("[id='scheduler.paused'] option[value=true]").await;
    browser.click("[id='scheduler.paused'] button[value=set]").await;
    browser.sees("[id='scheduler.paused']", "Reset to false").await;
    browser.press("Reset to false").await;
    browser.until("!document.querySelector(\"[id='scheduler.paused']\").innerText.includes('Reset')").await;
    browser.press("Audit log").await;
    browser.go(&site.url("/audit?of=server")).await;
    browser.sees("td", "from 1000 to 25").await;
    browser.sees("td", "from false to true").await;
    browser.sees("td", "from true to false").await;
    browser.press("setting/scheduler.batch_max").await;
    browser.sees("h1", "Settings").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
    site.stop().await;
}

#[tokio::test]
async fn an_invalid_or_conflicting_setting_is_refused_and_keeps_its_input() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    let (cookie, key) = log_in(&site, Role::Admin).await;
    let send = async |value: &str, version: &str| {
        let fields = [
            ("form_key", key.as_str()),
            ("key", "scheduler.batch_max"),
            ("value", value),
            ("version", version),
            ("action", "set"),
        ];
        let answer = post(&site, "/settings", &cookie, &site.url(""), &fields).await;
        (answer.status(), answer.text().await.expect("a page"))
    };
    let (status, text) = send("1e9", "0").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        text.contains("Not changed.")
            && text.contains("value=\"1e9\"")
            && text.contains("between 1 and 1000"),
        "{text}"
    );
    let (status, text) = send("many", "0").await;
    assert!(status == StatusCode::BAD_REQUEST && text.contains("value=\"many\""), "{text}");
    assert_eq!(send("7", "0").await.0, StatusCode::SEE_OTHER);
    let (status, text) = send("8", "0").await;
    assert!(
        status == StatusCode::CONFLICT && text.contains("value=\"8\"") && text.contains("not at 0"),
        "{text}"
    );
}
