//! Untrusted text that tries to become markup or script.

use weaver_core::ports::{Beat, RunnerKey};
use weaver_core::prelude::*;
use weaver_server::security::{NamespaceScope, NewToken, Role};
use weaver_testkit::services::browser::Driver;

use crate::browser::Browser;
use crate::site::{Harness, Site};

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

/// A dead task with that error and a succeeded one with that result, run by a worker of that name.
async fn finished(site: &Site, text: &str, name: &str) -> String {
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

/// Everything else on a page is escaped by maud.
#[test]
fn only_the_two_files_with_their_own_escaping_use_pre_escaped_markup() {
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
async fn text_of_a_task_is_never_markup() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
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
            started_at: harness.clock.now(),
            queues: vec![QueueName::new(name.clone()).expect("as the test expects")],
            types: None,
            capacity: 1,
            running: 0,
            draining: false,

            every: None,
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
        ids.push(finished(&site, text, &name_of(text)).await);
    }
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    let group = url::form_urlencoded::byte_serialize(CORPUS[0].as_bytes()).collect::<String>();
    let mut pages: Vec<String> = ids.iter().map(|id| format!("/tasks/{id}")).collect();
    pages.extend(["/", "/tasks", "/queues", "/groups", "/workers", "/tokens", "/audit"].map(str::to_owned));
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

/// Asserts that no text of the corpus became an element, attribute or script of the open page.
pub(crate) async fn harmless(browser: &Browser, page: &str) {
    browser.until("document.readyState === 'complete'").await;
    let found = browser.script("return [window.pwned ?? null, document.querySelectorAll('main script, main img, main iframe, main style, main meta, main svg:not(.chart), #strange, [onerror], [onload], [onfocus]').length, document.querySelectorAll('a[href^=\"javascript\"]').length]").await;
    assert_eq!(found, serde_json::json!([null, 0, 0]), "{page}");
    let shown = browser.text("body").await;
    assert!(!shown.contains(['\u{202e}', '\u{2066}']), "{page}: {shown}");
}
