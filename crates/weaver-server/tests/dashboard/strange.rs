//! Texts that want to be more than text.

use weaver_core::ports::{Beat, RunnerKey};
use weaver_core::prelude::*;
use weaver_server::security::{NamespaceScope, NewToken, Role};
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::site::{Bed, Site};

pub(crate) const CORPUS: [&str; 10] = [
    "<script>window.pwned = 1</script>",
    "\"><img src=x onerror=\"window.pwned = 1\">",
    "' autofocus onfocus='window.pwned = 1",
    "</title></textarea></pre><svg onload=\"window.pwned = 1\">",
    "javascript:window.pwned=1",
    "{{constructor.constructor('window.pwned=1')()}}",
    "<a href=\"javascript:window.pwned=1\" id=strange>x</a>",
    "<iframe srcdoc=\"<script>parent.pwned=1</script>\">",
    "<meta http-equiv=refresh content=\"0;url=https://evil.example\">",
    "a\u{202e}txt.exe\u{2066}<!-- ]]> --><style>*{display:none}</style>",
];

fn name_of(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// A task that was run by a worker of that name, and ended with that error, or with that result.
async fn ended_badly(site: &Site, text: &str, name: &str) -> String {
    let key = site.enqueue(NewTask::new("t").queue(name.to_owned()).max_attempts(1)).await;
    let other = site.enqueue(NewTask::new("t").queue(name.to_owned())).await;
    let worker = WorkerId::new(name.to_owned()).expect("as the test expects");
    let queue = QueueName::new(name.to_owned()).expect("as the test expects");
    let number: u128 = key.id.to_string().parse().expect("ids are numbers");
    let request = LeaseRequest::new(key.namespace.clone(), queue, worker, LeaseToken(number));
    let leased =
        site.store.lease(LeaseRequest { max: 3, slots: 3, ..request }).await.expect("as the test expects");
    for leased in leased {
        if leased.record.key == key {
            site.store.mark_failed(&leased, text).await.expect("as the test expects");
        } else if leased.record.key == other {
            let result = serde_json::json!({ text: text }).to_string();
            site.store.mark_succeeded(&leased, Some(result.into())).await.expect("as the test expects");
        }
    }
    assert_eq!(site.store.get_task(&key).await.expect("as the test expects").state, TaskState::Dead);
    key.id.to_string()
}

/// Markup that is written by hand is in two files; whatever else a page shows is escaped by maud.
#[test]
fn only_the_two_files_that_escape_by_themselves_write_markup_that_is_not_escaped() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard");
    let (mut open, mut found) = (vec![root], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("the sources are there") {
            let path = entry.expect("the sources are there").path();
            if path.is_dir() {
                open.push(path);
            } else if std::fs::read_to_string(&path).expect("a text").contains("PreEscaped") {
                found.push(path.file_name().expect("a file").to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    assert_eq!(found, ["ansi.rs", "text.rs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_task_says_becomes_part_of_a_page() {
    let (bed, driver) = (Bed::memory(), Driver::start());
    let site = Site::start(&bed).await;
    let mut ids = Vec::new();
    for text in CORPUS {
        let payload = serde_json::json!({ text: [text] }).to_string();
        let name = name_of(text);
        let task = NewTask::new(name.clone())
            .queue(name.clone())
            .payload(payload, weaver_core::task::ContentType::JSON);
        let task = task
            .task_group_id(name.clone())
            .session_id(name.clone())
            .serial_key(name.clone())
            .label(name.clone(), name.clone());
        let key = site.enqueue(task).await;
        let log = weaver_core::ports::StreamKey::attempt_log(&key, 0);
        site.store.append_entries(&log, &[text.to_owned().into()]).await.expect("as the test expects");
        let runner = RunnerKey {
            namespace: Namespace::default(),
            runner_id: WorkerId::new(name.clone()).expect("as the test expects"),
        };
        let beat = Beat {
            key: runner,
            project_root: Some(text.to_owned()),
            started_at: bed.clock.now(),
            queues: vec![QueueName::new(name.clone()).expect("as the test expects")],
            types: None,
            capacity: 1,
            running: 0,
            draining: false,
        };
        site.store.beat(vec![beat]).await.expect("as the test expects");
        let token = NewToken {
            name,
            role: Role::Viewer,
            namespaces: NamespaceScope::All,
            may_exec: false,
            expires_at: None,
            created_by: text.to_owned(),
        };
        site.tokens.create(token).await.expect("as the test expects");
        ids.push(key.id.to_string());
        ids.push(ended_badly(&site, text, &name_of(text)).await);
    }
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    let group = url::form_urlencoded::byte_serialize(CORPUS[0].as_bytes()).collect::<String>();
    let mut pages: Vec<String> = ids.iter().map(|id| format!("/tasks/{id}")).collect();
    pages.extend(["/", "/tasks", "/queues", "/groups", "/runners", "/tokens", "/audit"].map(str::to_owned));
    pages.extend([
        format!("/group?id={group}"),
        format!("/tasks?queue={group}&label={group}"),
        format!("/{group}"),
        format!("/login?next={group}"),
    ]);
    for page in &pages {
        browser.go(&site.url(page)).await;
        harmless(&browser, page).await;
    }
    browser.go(&site.url("/tasks")).await;
    browser.sees("#rows", CORPUS[0]).await;
    browser.sees("#rows .hidden", "U+202E").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}

/// Nothing of the corpus has become part of the page that is open.
pub(crate) async fn harmless(browser: &Browser, page: &str) {
    browser.until("document.readyState === 'complete'").await;
    let found = browser.script("return [window.pwned ?? null, document.querySelectorAll('main script, main img, main iframe, main style, main meta, main svg:not(.chart), #strange, [onerror], [onload], [onfocus]').length, document.querySelectorAll('a[href^=\"javascript\"]').length]").await;
    assert_eq!(found, serde_json::json!([null, 0, 0]), "{page}");
    let shown = browser.text("body").await;
    assert!(!shown.contains(['\u{202e}', '\u{2066}']), "{page}: {shown}");
}
