//! Schedules: from the empty page to a task that was made, and back; by form, by role, by strange names.

use std::sync::Arc;

use reqwest::StatusCode;
use serde_json::json;
use weaver_core::prelude::*;
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};
use weaver_scheduler::{Options, Scheduler};
use weaver_server::security::Role;
use weaver_testkit::services::browser::{Driver, axe_script};

use crate::accessible::violations;
use crate::browser::{Browser, Look};
use crate::login::{log_in, page_of, post};
use crate::site::{Bed, Crew, Site};
use crate::strange::{CORPUS, harmless};

/// The last Sunday of March: in Berlin there is no half past two then, whichever year this is.
const GAP: &str = "30 2 * 3 SUNL";
const DESCRIBED: &str = "document.querySelector('#check').innerText";

fn scheduler(bed: &Bed) -> Scheduler {
    Scheduler::new(Arc::clone(&bed.store), Arc::clone(&bed.clock), Options { node: "test".to_owned() })
}

fn daily(task_type: &str) -> DefinitionSpec {
    DefinitionSpec::timed(ScheduleSpec::new("daily at 07:00").tz("UTC"), TaskTemplate::new(task_type))
}

pub(crate) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_added_run_edited_disabled_and_deleted_on_the_embedded_store() {
    people(&Bed::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_added_run_edited_disabled_and_deleted_on_postgresql() {
    people(&Bed::postgres().await).await;
}

async fn people(bed: &Bed) {
    let (site, driver) = (Site::start(bed).await, Driver::start());
    let (_crew, _lines) = Crew::start(bed);
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    browser.press("Schedules").await;
    browser.sees(".empty", "weaver schedules add").await;
    browser.press("New schedule").await;
    fill_in(&browser).await;
    browser.press("Add").await;
    // Its page: when, and what the clocks have to do with it.
    browser.sees("h1", "Schedule nightly").await;
    browser.until("document.querySelectorAll('.fires li').length === 5").await;
    browser.sees(".fires .note", "02:30 does not exist").await;
    run(&browser).await;
    switch(&browser).await;
    edit_at_once(&browser, bed).await;
    browser.click("details:has(.danger) summary").await;
    browser.press("Delete nightly").await;
    browser.sees(".empty", "no schedule here yet").await;
    browser.press("Audit").await;
    for deed in ["add", "run_now", "disable", "enable", "edit", "remove"] {
        browser.sees("td", &format!("schedule.{deed}")).await;
    }
    browser.until("document.querySelector('td a[href=\"/schedule?name=nightly\"]') !== null").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
    site.stop().await;
}

/// What is wrong is said while it is typed, at its field; what nobody has come to yet is not.
async fn fill_in(browser: &Browser) {
    browser.sees("h1", "New schedule").await;
    browser.type_into("#name", "nightly").await;
    browser.type_into("#schedule", "30 25 * * *").await;
    browser.sees("#check .alert", "25 is not between 0 and 23").await;
    browser.until("document.querySelector('#schedule').ariaInvalid === 'true'").await;
    retype(browser, "#schedule", GAP).await;
    browser.sees("#check", "Still to fill in: Time zone").await;
    browser.until("document.querySelector('[aria-invalid]') === null").await;
    browser.type_into("#tz", "Europe/Berlim").await;
    browser.sees("#check .alert", "Europe/Berlin").await;
    retype(browser, "#tz", "Europe/Berlin").await;
    browser.sees("#check", "At 02:30, on the last Sunday of the month, in March").await;
    browser.sees("#check .note", "02:30 does not exist").await;
    browser.sees("#check", "Still to fill in: Type of the task").await;
    browser.type_into("#task_type", "ok").await;
    browser.type_into("#payload", "{\"to\": ").await;
    browser.sees("#check .alert", "this is no JSON").await;
    browser.until("document.querySelector('#payload').ariaInvalid === 'true'").await;
    browser.type_into("#payload", "\"ada\"}").await;
    browser.until(&format!("!{DESCRIBED}.includes('JSON') && {DESCRIBED}.includes('It would fire')")).await;
}

async fn retype(browser: &Browser, css: &str, text: &str) {
    browser.script(&format!("document.querySelector({}).value = ''", json!(css))).await;
    browser.type_into(css, text).await;
}

/// By hand, now; and from the task back to its schedule.
async fn run(browser: &Browser) {
    browser.press("Run now").await;
    browser.sees("h1", "succeeded").await;
    browser.sees("pre", "\"to\": \"ada\"").await;
    browser.press("nightly").await;
    browser.sees("h1", "Schedule nightly").await;
    browser.sees("td", "succeeded").await;
    browser.press("All its tasks").await;
    browser.sees("#rows", "succeeded").await;
    browser.press("Schedules").await;
    browser.sees("[data-key=nightly]", "Europe/Berlin").await;
    browser.sees("[data-key=nightly]", "succeeded").await;
    browser.press("nightly").await;
}

async fn switch(browser: &Browser) {
    browser.press("Disable").await;
    browser.sees("h1", "disabled").await;
    browser.sees("main", "None while it is disabled").await;
    browser.press("Enable").await;
    browser.sees("h1", "enabled").await;
}

/// Two people edit at once: the second is told, sees the difference, has lost nothing, and decides.
async fn edit_at_once(browser: &Browser, bed: &Bed) {
    let (scheduler, space) = (scheduler(bed), Namespace::default());
    browser.press("Edit").await;
    browser.sees("h1", "Edit schedule nightly").await;
    browser.sees("#check .note", "02:30 does not exist").await;
    let mut theirs = scheduler.get(&space, "nightly").await.expect("it is there");
    theirs.spec.task.queue = Some("theirs".to_owned());
    scheduler.edit(&space, "nightly", theirs.version, theirs.spec).await.expect("an edit");
    retype(browser, "#schedule", "every 9m").await;
    retype(browser, "#tz", "").await;
    browser.press("Save").await;
    browser.sees(".alert", "Nothing you typed is lost").await;
    browser.sees("td", "theirs").await;
    browser.until("document.querySelector('#schedule').value === 'every 9m'").await;
    let stored = scheduler.get(&space, "nightly").await.expect("it is there");
    assert_eq!(stored.spec.task.queue.as_deref(), Some("theirs"), "nothing was written over");
    browser.press("Save mine anyway").await;
    browser.sees("h1", "Schedule nightly").await;
    browser.sees(".facts", "Every 9 minutes").await;
    let stored = scheduler.get(&space, "nightly").await.expect("it is there");
    assert_eq!((stored.spec.task.queue, stored.spec.enabled), (None, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_scripts_a_form_says_what_is_wrong_when_it_is_sent_and_keeps_what_was_typed() {
    let (bed, driver) = (Bed::memory(), Driver::start());
    let site = Site::start(&bed).await;
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
    browser.press("Add").await;
    let (cookie, _) = log_in(&site, Role::Admin).await;
    // A page without scripts cannot be asked by one: what it sends is what is stored, once it is right.
    browser.type_into("#payload", "]").await;
    browser.press("Add").await;
    let shown = page_of(&site, &cookie, "/schedule?name=receipts").await.text().await.expect("a page");
    assert!(
        shown.contains("On event") && shown.contains("order.paid") && shown.contains("[\n  1,"),
        "{shown}"
    );
    browser.close().await;
}

#[tokio::test]
async fn a_form_that_is_refused_comes_back_with_its_reason_its_status_and_everything_typed() {
    let bed = Bed::memory();
    let site = Site::start(&bed).await;
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
    // The same answer as while it is typed.
    let (status, checked) = send("/schedules/check", &typed).await;
    assert!(
        status == StatusCode::OK
            && checked.contains("data-wrong=\"schedule\"")
            && checked.contains("day of week"),
        "{checked}"
    );
    let good = [("name", "a & b"), ("schedule", "every 5m"), ("task_type", "ok")];
    assert_eq!(send("/schedules/new", &good).await.0, StatusCode::SEE_OTHER);
    let (status, text) = send("/schedules/new", &good).await;
    assert!(status == StatusCode::CONFLICT && text.contains("is there already"), "{status} {text}");
    // Somebody removed it meanwhile: nothing is lost, and saving again adds it.
    scheduler(&bed).remove(&Namespace::default(), "a & b", None).await.expect("a removal");
    let edited = [("name", "a & b"), ("schedule", "every 7m"), ("task_type", "ok"), ("version", "1")];
    let (status, text) = send("/schedule/edit?name=a+%26+b", &edited).await;
    assert!(
        status == StatusCode::CONFLICT && text.contains("removed this schedule") && text.contains("every 7m"),
        "{text}"
    );
    assert!(text.contains("name=\"version\" value=\"0\""), "{text}");
}

#[tokio::test]
async fn what_a_role_may_not_do_with_schedules_is_neither_offered_nor_done_and_forms_need_their_key() {
    let bed = Bed::memory();
    let site = Site::start(&bed).await;
    let (scheduler, space) = (scheduler(&bed), Namespace::default());
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
    let left = scheduler.list(&space, "", None, 10).await.expect("a list").items;
    assert!(left.len() == 1 && left[0].spec.enabled && left[0].last_runs.is_empty(), "{left:?}");
    assert!(
        !scheduler.settings().list().await.expect("settings").iter().any(|setting| setting.version.0 > 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_schedule_says_becomes_part_of_a_page() {
    let (bed, driver) = (Bed::memory(), Driver::start());
    let site = Site::start(&bed).await;
    let (scheduler, space) = (scheduler(&bed), Namespace::default());
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
    // As it is typed: what is wrong is shown with what was written.
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
async fn pages_of_schedules_and_settings_are_without_violations_in_light_and_dark_and_fit_a_phone() {
    let (bed, driver) = (Bed::memory(), Driver::start());
    let site = Site::start(&bed).await;
    let scheduler = scheduler(&bed);
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
        browser.look(Look { width, height: 800, dark }).await;
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
