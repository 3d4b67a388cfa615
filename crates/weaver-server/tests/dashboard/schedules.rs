//! Schedules: create, run, edit, delete; validation, permissions, untrusted names.

use std::sync::Arc;

use reqwest::StatusCode;
use serde_json::json;
use weaver_core::prelude::*;
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};
use weaver_scheduler::{Options, Scheduler};
use weaver_server::security::Role;
use weaver_testkit::services::browser::{Driver, axe_script};

use crate::accessibility::violations;
use crate::browser::{Browser, Viewport};
use crate::login::{log_in, page_of, post};
use crate::site::{Harness, Site, TestWorker};
use crate::untrusted::{CORPUS, harmless};

/// The last Sunday of March: in Berlin there is no half past two then, whichever year this is.
const GAP: &str = "30 2 * 3 SUNL";
const DESCRIBED: &str = "document.querySelector('#check').innerText";

fn scheduler(harness: &Harness) -> Scheduler {
    Scheduler::new(
        Arc::clone(&harness.store),
        Arc::clone(&harness.clock),
        Options { node: "test".to_owned() },
    )
}

fn daily(task_type: &str) -> DefinitionSpec {
    DefinitionSpec::timed(ScheduleSpec::new("daily at 07:00").tz("UTC"), TaskTemplate::new(task_type))
}

pub(crate) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_added_run_edited_disabled_and_deleted_on_the_embedded_store() {
    walkthrough(&Harness::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_added_run_edited_disabled_and_deleted_on_postgresql() {
    walkthrough(&Harness::postgres().await).await;
}

async fn walkthrough(harness: &Harness) {
    let (site, driver) = (Site::start(harness).await, Driver::start());
    let (_worker, _lines) = TestWorker::start(harness);
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    browser.press("Schedules").await;
    browser.sees(".empty", "weaver schedules add").await;
    browser.press("New schedule").await;
    fill_in(&browser).await;
    browser.press("Create schedule").await;
    // Its page shows the upcoming runs, with notes about DST.
    browser.sees("h1", "Schedule nightly").await;
    browser.until("document.querySelectorAll('.upcoming li').length === 5").await;
    browser.sees(".upcoming .note", "02:30 does not exist").await;
    run(&browser).await;
    switch(&browser).await;
    edit_at_once(&browser, harness).await;
    browser.click("details:has(.danger) summary").await;
    browser.press("Delete nightly").await;
    browser.sees(".empty", "No schedules in this namespace yet").await;
    browser.press("Audit log").await;
    for action in ["add", "run_now", "disable", "enable", "edit", "remove"] {
        browser.sees("td", &format!("schedule.{action}")).await;
    }
    browser.until("document.querySelector('td a[href=\"/schedule?name=nightly\"]') !== null").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
    site.stop().await;
}

/// Invalid input is reported at its field while it is typed; an empty field is not.
async fn fill_in(browser: &Browser) {
    browser.sees("h1", "New schedule").await;
    browser.type_into("#name", "nightly").await;
    browser.type_into("#schedule", "30 25 * * *").await;
    browser.sees("#check .alert", "25 is not between 0 and 23").await;
    browser.until("document.querySelector('#schedule').ariaInvalid === 'true'").await;
    retype(browser, "#schedule", GAP).await;
    browser.sees("#check", "Required: Time zone").await;
    browser.until("document.querySelector('[aria-invalid]') === null").await;
    browser.type_into("#tz", "Europe/Berlim").await;
    browser.sees("#check .alert", "Europe/Berlin").await;
    retype(browser, "#tz", "Europe/Berlin").await;
    browser.sees("#check", "At 02:30, on the last Sunday of the month, in March").await;
    browser.sees("#check .note", "02:30 does not exist").await;
    browser.sees("#check", "Required: Task type").await;
    browser.type_into("#task_type", "ok").await;
    browser.type_into("#payload", "{\"to\": ").await;
    browser.sees("#check .alert", "not valid JSON").await;
    browser.until("document.querySelector('#payload').ariaInvalid === 'true'").await;
    browser.type_into("#payload", "\"ada\"}").await;
    browser.until(&format!("!{DESCRIBED}.includes('JSON') && {DESCRIBED}.includes('Upcoming runs')")).await;
}

async fn retype(browser: &Browser, css: &str, text: &str) {
    browser.script(&format!("document.querySelector({}).value = ''", json!(css))).await;
    browser.type_into(css, text).await;
}

/// A manual run, and from its task back to the schedule.
async fn run(browser: &Browser) {
    browser.press("Run now").await;
    browser.sees("h1", "succeeded").await;
    browser.sees("pre", "\"to\": \"ada\"").await;
    browser.press("nightly").await;
    browser.sees("h1", "Schedule nightly").await;
    browser.sees("td", "succeeded").await;
    browser.press("All tasks of this schedule").await;
    browser.sees("#rows", "succeeded").await;
    browser.press("Schedules").await;
    browser.sees("[data-key=nightly]", "Europe/Berlin").await;
    browser.sees("[data-key=nightly]", "succeeded").await;
    browser.press("nightly").await;
}

async fn switch(browser: &Browser) {
    browser.press("Disable").await;
    browser.sees("h1", "disabled").await;
    browser.sees("main", "None while the schedule is disabled").await;
    browser.press("Enable").await;
    browser.sees("h1", "enabled").await;
}

/// An edit conflict: the second user sees the differences, keeps the input, and may overwrite.
async fn edit_at_once(browser: &Browser, harness: &Harness) {
    let (scheduler, space) = (scheduler(harness), Namespace::default());
    browser.press("Edit").await;
    browser.sees("h1", "Edit schedule nightly").await;
    browser.sees("#check .note", "02:30 does not exist").await;
    let mut theirs = scheduler.get(&space, "nightly").await.expect("it is there");
    theirs.spec.task.queue = Some("theirs".to_owned());
    scheduler.edit(&space, "nightly", theirs.version, theirs.spec).await.expect("an edit");
    retype(browser, "#schedule", "every 9m").await;
    retype(browser, "#tz", "").await;
    browser.press("Save").await;
    browser.sees(".alert", "Your input is kept below").await;
    browser.sees("td", "theirs").await;
    browser.until("document.querySelector('#schedule').value === 'every 9m'").await;
    let stored = scheduler.get(&space, "nightly").await.expect("it is there");
    assert_eq!(stored.spec.task.queue.as_deref(), Some("theirs"), "nothing was overwritten");
    browser.press("Overwrite").await;
    browser.sees("h1", "Schedule nightly").await;
    browser.sees(".details", "Every 9 minutes").await;
    let stored = scheduler.get(&space, "nightly").await.expect("it is there");
    assert_eq!((stored.spec.task.queue, stored.spec.enabled), (None, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_script_a_form_is_validated_on_submission_and_keeps_its_input() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    browser.tool("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    browser.go(&site.url("/schedules/new")).await;
    browser.type_into("#name", "receipts").await;
    browser.click("#kind-event").await;
    browser.type_into("#event_type", "order.paid").await;
    browser.type_into("#task_type", "ok").await;
    browser.type_into("#payload", "[1, 2").await;
    browser.press("Create schedule").await;
    let (cookie, _) = log_in(&site, Role::Admin).await;
    // The test cannot query a page without scripts either, so it checks what is stored after the correction.
    browser.type_into("#payload", "]").await;
    browser.press("Create schedule").await;
    let shown = page_of(&site, &cookie, "/schedule?name=receipts").await.text().await.expect("a page");
    assert!(
        shown.contains("On event") && shown.contains("order.paid") && shown.contains("[\n  1,"),
        "{shown}"
    );
    browser.close().await;
}

#[tokio::test]
async fn a_refused_form_is_shown_again_with_its_reason_status_and_input() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    let (cookie, key) = log_in(&site, Role::Operator).await;
    let send = async |path: &str, fields: &[(&str, &str)]| {
        let base = [("form_key", key.as_str()), ("kind", "time"), ("version", "0")];
        let fields: Vec<_> = base
            .into_iter()
            .filter(|(name, _)| !fields.iter().any(|(given, _)| given == name))
            .chain(fields.iter().copied())
            .collect();
        let answer = post(&site, path, &cookie, &site.url(""), &fields).await;
        (answer.status(), answer.text().await.expect("a page"))
    };
    let typed = [
        ("name", "a & b"),
        ("schedule", "0 9 * * 1-9"),
        ("tz", "UTC"),
        ("task_type", "ok"),
        ("labels", "x=1\r\ny=2"),
    ];
    let (status, text) = send("/schedules/new", &typed).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    for part in [
        "Not saved.",
        "day of week",
        "value=\"a &amp; b\"",
        "value=\"0 9 * * 1-9\"",
        "x=1\r\ny=2",
        "aria-invalid=\"true\"",
        "href=\"#schedule\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The same result as the check while typing.
    let (status, checked) = send("/schedules/check", &typed).await;
    assert!(
        status == StatusCode::OK
            && checked.contains("data-invalid=\"schedule\"")
            && checked.contains("day of week"),
        "{checked}"
    );
    let good = [("name", "a & b"), ("schedule", "every 5m"), ("task_type", "ok")];
    assert_eq!(send("/schedules/new", &good).await.0, StatusCode::SEE_OTHER);
    let (status, text) = send("/schedules/new", &good).await;
    assert!(status == StatusCode::CONFLICT && text.contains("already exists"), "{status} {text}");
    // Removed meanwhile: the input is kept, and saving again recreates it.
    scheduler(&harness).remove(&Namespace::default(), "a & b", None).await.expect("a removal");
    let edited = [("name", "a & b"), ("schedule", "every 7m"), ("task_type", "ok"), ("version", "1")];
    let (status, text) = send("/schedule/edit?name=a+%26+b", &edited).await;
    assert!(
        status == StatusCode::CONFLICT
            && text.contains("was deleted while you were editing it")
            && text.contains("every 7m"),
        "{text}"
    );
    assert!(text.contains("name=\"version\" value=\"0\""), "{text}");
}

#[tokio::test]
async fn schedule_forms_need_their_permission_their_form_key_and_our_origin() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    let (scheduler, space) = (scheduler(&harness), Namespace::default());
    scheduler.add(&space, "mine", daily("ok")).await.expect("a schedule");
    let (viewer, viewer_key) = log_in(&site, Role::Viewer).await;
    let (admin, admin_key) = log_in(&site, Role::Admin).await;
    for path in ["/schedules", "/schedule?name=mine", "/settings"] {
        let text = page_of(&site, &viewer, path).await.text().await.expect("a page");
        let forms = text.matches("method=\"post\"").count() - text.matches("action=\"/logout\"").count();
        assert!(
            forms == 0 && !text.contains("/schedules/new"),
            "a viewer is offered something on {path}: {text}"
        );
        let text = page_of(&site, &admin, path).await.text().await.expect("a page");
        assert!(text.contains("method=\"post\"") && !text.contains("lacks"), "{path}: {text}");
    }
    for path in ["/schedules/new", "/schedule/edit?name=mine"] {
        assert_eq!(page_of(&site, &viewer, path).await.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let whole = [("name", "new"), ("schedule", "every 5m"), ("task_type", "ok"), ("version", "0")];
    let forms: [(&str, &[(&str, &str)]); 8] = [
        ("/schedules/new", &whole),
        ("/schedule/edit?name=mine", &whole),
        ("/schedules/check", &whole),
        ("/schedule?name=mine", &[("action", "run")]),
        ("/schedule?name=mine", &[("action", "disable")]),
        ("/schedule?name=mine", &[("action", "delete")]),
        ("/settings", &[("key", "scheduler.paused"), ("value", "true"), ("action", "set")]),
        ("/settings", &[("key", "scheduler.paused"), ("action", "reset")]),
    ];
    let own = site.url("");
    for (path, fields) in forms {
        let with = |key: &str| {
            fields
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .chain([("form_key", key.to_owned())])
                .collect::<Vec<_>>()
        };
        let tries = [
            ("a viewer", &viewer, own.as_str(), with(&viewer_key)),
            ("no key", &admin, &own, with("")),
            ("another's key", &admin, &own, with(&viewer_key)),
            ("another site", &admin, "http://evil.example", with(&admin_key)),
        ];
        for (who, cookie, origin, fields) in tries {
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let answer = post(&site, path, cookie, origin, &fields).await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{who}: {path} {fields:?}");
        }
    }
    let stored = scheduler.list(&space, "", None, 10).await.expect("a list").items;
    assert!(stored.len() == 1 && stored[0].spec.enabled && stored[0].last_runs.is_empty(), "{stored:?}");
    assert!(
        !scheduler.settings().list().await.expect("settings").iter().any(|setting| setting.version.0 > 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_schedule_is_never_markup() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    let (scheduler, space) = (scheduler(&harness), Namespace::default());
    let mut pages = vec!["/schedules".to_owned(), "/".to_owned()];
    for (number, text) in CORPUS.iter().enumerate() {
        let name: String = text.chars().filter(|c| !c.is_control()).take(75).collect();
        let mut task = TaskTemplate::new(name.clone()).queue(name.clone()).payload(json!({*text: [text]}));
        task.labels.insert(name.clone(), name.clone());
        let spec = match number % 2 {
            0 => DefinitionSpec::timed(ScheduleSpec::new("every 5m"), task),
            _ => DefinitionSpec::on_event(name.clone(), task),
        };
        scheduler.add(&space, &name, spec).await.expect("a schedule");
        scheduler.run_now(&space, &name).await.expect("a task");
        pages.push(format!("/schedule?name={}", encoded(&name)));
        pages.push(format!("/schedule/edit?name={}", encoded(&name)));
    }
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    for page in &pages {
        browser.go(&site.url(page)).await;
        browser.sees("h1", "").await;
        harmless(&browser, page).await;
    }
    // The check while typing shows the invalid input.
    browser.go(&site.url("/schedules/new")).await;
    for text in &CORPUS[..4] {
        retype(&browser, "#schedule", text).await;
        browser.sees("#check .alert", text.split(' ').next().expect("a word")).await;
        harmless(&browser, text).await;
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_and_settings_pages_are_accessible_in_light_and_dark_and_fit_a_phone() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    let scheduler = scheduler(&harness);
    let space = Namespace::default();
    let long = "a-name-without-a-place-to-break-".repeat(2);
    scheduler.add(&space, &long, daily(&long.repeat(3))).await.expect("a schedule");
    scheduler.run_now(&space, &long).await.expect("a task");
    let gap = DefinitionSpec::timed(ScheduleSpec::new(GAP).tz("Europe/Berlin"), TaskTemplate::new("ok"));
    scheduler.add(&space, "gap", gap).await.expect("a schedule");
    scheduler.settings().put("scheduler.paused", json!(true), None).await.expect("a setting");
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    let axe = axe_script();
    let pages = [
        "/schedules".to_owned(),
        "/schedules?namespace=empty".to_owned(),
        format!("/schedule?name={long}"),
        "/schedule?name=gap".to_owned(),
        "/schedules/new".to_owned(),
        format!("/schedule/edit?name={long}"),
        "/settings".to_owned(),
    ];
    for (dark, width) in [(false, 1280), (true, 1280), (false, 375)] {
        browser.set_viewport(Viewport { width, height: 800, dark }).await;
        for page in &pages {
            browser.go(&site.url(page)).await;
            browser.until("document.readyState === 'complete'").await;
            if width == 375 {
                fits(&browser, page).await;
                continue;
            }
            if page == "/schedules/new" {
                browser.type_into("#schedule", "0 9 * * MOO").await;
                browser.sees("#check .alert", "MON").await;
            }
            assert_eq!(violations(&browser, &axe).await, Vec::<String>::new(), "{page}, dark: {dark}");
        }
    }
    browser.close().await;
}

pub(crate) async fn fits(browser: &Browser, page: &str) {
    let wide = browser.script("return document.documentElement.scrollWidth").await;
    assert!(wide.as_u64().is_some_and(|wide| wide <= 375), "{page} is {wide} px wide on a phone");
}
