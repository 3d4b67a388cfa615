//! Records that the server cannot read, on the overview and on a page of their own.

use std::sync::Arc;

use weaver_core::clock::Clock;
use weaver_core::name::SerialKey;
use weaver_core::prelude::*;
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};
use weaver_runtime::SystemClock;
use weaver_server::security::Role;
use weaver_testkit::faults::{FaultyStore, Script};
use weaver_testkit::services::browser::{Driver, axe_script};

use crate::accessibility::violations;
use crate::browser::{Browser, Viewport};
use crate::login::{log_in, page_of};
use crate::site::{Harness, Site};
use crate::untrusted::{CORPUS, harmless};

fn harness() -> (Harness, Arc<FaultyStore>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let memory = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let store = Arc::new(FaultyStore::new(memory, Arc::clone(&clock), Script::new()));
    (Harness::of(store.clone(), clock), store)
}

fn finding(harness: &Harness, kind: RecordKind, namespace: Namespace, id: &str, reason: &str) -> Quarantined {
    let why = Unreadable::Undecodable { reason: reason.to_owned() };
    Quarantined::new(kind, namespace, id, why, harness.clock.now())
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_records_are_announced_on_the_overview_and_listed_with_their_remedy() {
    let ((harness, store), driver) = (harness(), Driver::start());
    let site = Site::start(&harness).await;
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    assert_eq!(browser.script("return document.querySelectorAll('main .alert').length").await, 0);
    browser.go(&site.url("/quarantine")).await;
    browser.sees("main", "No unreadable records found").await;

    store.cannot_read(Quarantined {
        queue: Some(QueueName::new("mail").expect("a name")),
        state: Some("RUNNING".to_owned()),
        serial_key: Some(SerialKey::new("customer-7").expect("a key")),
        holds_slot: true,
        ..finding(&harness, RecordKind::Task, Namespace::default(), "7", "labels: expected a map")
    });
    let newer = Unreadable::UnknownFormat { found: 9, known: 1 };
    let document =
        finding(&harness, RecordKind::Document, Namespace::default(), "job_definition/nightly", "");
    store.cannot_read(Quarantined { reason: newer, ..document });
    store.cannot_read(finding(
        &harness,
        RecordKind::QueueSettings,
        Namespace::default(),
        "mail",
        "max_running",
    ));
    browser.go(&site.url("/")).await;
    browser.sees("main .alert", "3 records cannot be read").await;
    browser.click("main .alert a").await;
    browser.sees("h1", "Unreadable records").await;
    let shown = browser.text("main").await;
    for text in [
        "labels: expected a map",
        "serial key customer-7",
        "a slot of its queue",
        "weaver tasks purge 7 --yes",
        "it has format 9",
        "Upgrade this node",
        "weaver queues limit mail none",
    ] {
        assert!(shown.to_lowercase().contains(&text.to_lowercase()), "{text}\n{shown}");
    }
    let axe = axe_script();
    for (dark, width) in [(false, 1280), (true, 1280), (false, 375)] {
        browser.set_viewport(Viewport { width, height: 800, dark }).await;
        for page in ["/quarantine", "/"] {
            browser.go(&site.url(page)).await;
            browser.until("document.readyState === 'complete'").await;
            let wide = browser.script("return document.documentElement.scrollWidth").await;
            assert!(wide.as_u64().expect("a number") <= width.into(), "{page} is {wide} px wide");
            assert_eq!(violations(&browser, &axe).await, Vec::<String>::new(), "{page}, dark: {dark}");
        }
    }
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_an_unreadable_record_is_never_markup() {
    let ((harness, store), driver) = (harness(), Driver::start());
    let site = Site::start(&harness).await;
    let kinds = [RecordKind::Task, RecordKind::QueueSettings, RecordKind::Runner, RecordKind::Document];
    for (number, text) in CORPUS.into_iter().enumerate() {
        store.cannot_read(Quarantined {
            state: Some(text.to_owned()),
            ..finding(&harness, kinds[number % kinds.len()], Namespace::default(), text, text)
        });
    }
    let task = site.enqueue(NewTask::new("t")).await;
    store.cannot_read(finding(
        &harness,
        RecordKind::Task,
        Namespace::default(),
        &task.id.to_string(),
        CORPUS[0],
    ));
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    let pages = ["/quarantine".to_owned(), "/".to_owned(), format!("/tasks/{}", task.id)];
    for page in &pages {
        browser.go(&site.url(page)).await;
        harmless(&browser, page).await;
        if page == "/quarantine" {
            let rows = browser.script("return document.querySelectorAll('main tbody tr').length").await;
            assert_eq!(rows, CORPUS.len() + 1, "all of them are on the page");
            browser.sees("main tbody", CORPUS[0]).await;
        }
    }
    // The page of an unreadable task names the remedy.
    browser.sees("main", "cannot be read").await;
    browser.sees("main", &format!("weaver tasks purge {} --yes", task.id)).await;
    browser.close().await;
}

#[tokio::test]
async fn a_viewer_sees_the_records_of_one_namespace_and_is_offered_no_action() {
    let (harness, store) = harness();
    let site = Site::start(&harness).await;
    store.cannot_read(finding(&harness, RecordKind::Task, Namespace::default(), "11", "mine"));
    let other = Namespace::new("other").expect("a name");
    store.cannot_read(finding(&harness, RecordKind::Task, other, "22", "theirs"));
    let (cookie, _) = log_in(&site, Role::Viewer).await;
    let page = async |path: &str| page_of(&site, &cookie, path).await.text().await.expect("a text");
    let own = page("/quarantine").await;
    assert!(own.contains("mine") && !own.contains("theirs"), "{own}");
    assert_eq!(own.matches("method=\"post\"").count(), own.matches("action=\"/logout\"").count(), "{own}");
    let elsewhere = page("/quarantine?namespace=other").await;
    assert!(elsewhere.contains("theirs") && !elsewhere.contains("mine"), "{elsewhere}");
    assert!(elsewhere.contains("weaver tasks purge 22 --yes --namespace other"), "{elsewhere}");
}
