//! Settings: read, changed, refused, reset; and every change in the journal.

use reqwest::StatusCode;
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::login::{log_in, post};
use crate::site::{Bed, Site};

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_is_changed_refused_and_reset_and_the_journal_says_so_on_the_embedded_store() {
    people(&Bed::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_is_changed_refused_and_reset_and_the_journal_says_so_on_postgresql() {
    people(&Bed::postgres().await).await;
}

async fn people(bed: &Bed) {
    let (site, driver) = (Site::start(bed).await, Driver::start());
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Operator).await).await;
    browser.sees("h1", "Overview").await;
    browser.press("Settings").await;
    browser
        .sees("main", "how many due schedules or events one tick takes".replacen('h', "H", 1).as_str())
        .await;
    let batch = "[id='scheduler.batch_max']";
    browser.script(&format!("document.querySelector(\"{batch} input[name=value]\").value = ''")).await;
    browser.type_into(&format!("{batch} input[name=value]"), "25").await;
    browser.click(&format!("{batch} button[value=set]")).await;
    browser.sees(&format!("{batch} h2"), "changed").await;
    browser.sees(batch, "Reset to 1000").await;
    // The browser holds back what is out of range, and says so; the server refuses it.
    browser.script(&format!("document.querySelector(\"{batch} input[name=value]\").value = '0'")).await;
    browser.click(&format!("{batch} button[value=set]")).await;
    browser.until(&format!("document.querySelector(\"{batch} input:invalid\") !== null")).await;
    browser.click("[id='scheduler.paused'] option[value=true]").await;
    browser.click("[id='scheduler.paused'] button[value=set]").await;
    browser.sees("[id='scheduler.paused']", "Reset to false").await;
    browser.press("Reset to false").await;
    browser.until("!document.querySelector(\"[id='scheduler.paused']\").innerText.includes('Reset')").await;
    browser.press("Audit").await;
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
async fn a_setting_that_cannot_be_so_or_was_changed_meanwhile_is_said_with_what_was_typed() {
    let bed = Bed::memory();
    let site = Site::start(&bed).await;
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
