//! Pictures of every page, light, dark and on a phone, into a directory. Run it as `cargo xtask screenshots`.
//!
//! A second argument shows what README does not, for whoever looks at a change: `empty`, or `long` names.

#[path = "../tests/dashboard/browser.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod browser;
#[path = "../tests/support/merge_side.rs"]
mod merge_side;
#[path = "../tests/dashboard/merging.rs"]
mod merging;
#[path = "../../weaver-merge/tests/repository/repo.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "shared with the tests, which use all of it")]
mod repo;
#[path = "../tests/dashboard/site.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod site;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weaver_core::clock::ManualClock;
use weaver_core::lifecycle::Command;
use weaver_core::ports::{Beat, RunnerKey, StreamKey};
use weaver_core::prelude::*;
use weaver_merge::domain::PRIORITY_DEFAULT;
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};
use weaver_scheduler::{Options, Scheduler};
use weaver_server::security::Role;
use weaver_testkit::services::browser::Driver;

use browser::{Browser, Look};
use repo::Repo;
use site::{Bed, Site};

const WORKER: &str = "worker-1";
/// Letters are still clear, and all pictures together take a third of a megabyte.
const QUALITY: u32 = 35;

#[tokio::main(flavor = "multi_thread")]
async fn main() {
    let directory = std::env::args().nth(1).expect("the directory for the pictures");
    std::fs::create_dir_all(&directory).expect("the directory can be made");
    let clock = ManualClock::default();
    let bed = Bed::of(Arc::new(InMemoryQueue::new(Arc::new(clock.clone()))), Arc::new(clock.clone()));
    let dead = match std::env::args().nth(2).as_deref() {
        Some("empty") => "1".to_owned(),
        Some("long") => {
            long(&*bed.store).await;
            fill(&*bed.store, &clock).await
        }
        _ => {
            schedules(&bed).await;
            fill(&*bed.store, &clock).await
        }
    };
    let (site, driver) = (Site::start(&bed).await, Driver::start());
    let repo = merging::repository("running 12 tests");
    if std::env::args().len() == 2 {
        merges(&site, &repo).await;
    }
    let pages = [
        ("overview", "/".to_owned()),
        ("tasks", "/tasks".to_owned()),
        ("task", format!("/tasks/{dead}")),
        ("group", "/group?id=repairs".to_owned()),
        ("queues", "/queues".to_owned()),
        ("runners", "/runners".to_owned()),
        ("schedules", "/schedules".to_owned()),
        ("schedule", "/schedule?name=nightly-report".to_owned()),
        ("merge", "/merge/queue?id=shop:main".to_owned()),
        ("merge-entry", "/merge/entry?queue=shop:main&entry=2".to_owned()),
        ("settings", "/settings".to_owned()),
    ];
    for (name, look) in [
        ("light", Look { width: 1100, height: 760, dark: false }),
        ("dark", Look { width: 1100, height: 760, dark: true }),
        ("phone", Look { width: 375, height: 760, dark: false }),
    ] {
        let browser = Browser::with(&driver, look).await;
        browser.go(&site.link(Role::Admin).await).await;
        browser.sees("h1", "Overview").await;
        for (page, path) in &pages {
            browser.go(&site.url(path)).await;
            browser.until("(document.querySelector('#live-mark')?.innerText ?? 'Live') === 'Live'").await;
            // Where it happens to be is nobody's business.
            let renamed = format!(
                "document.body.querySelectorAll('*').forEach((e) => e.childNodes.forEach((n) => {{ if (n.nodeType === 3) \
                 n.data = n.data.replace({:?}, '/srv/git/shop.git') }}))",
                repo.path().to_string_lossy(),
            );
            browser.script(&renamed).await;
            picture(&browser, look, &Path::new(&directory).join(format!("{page}-{name}.webp"))).await;
        }
        browser.close().await;
    }
}

/// As much of a page as there is, and no more than fits the screen.
async fn picture(browser: &Browser, look: Look, file: &Path) {
    let bottom = "const ends = [...document.querySelectorAll('main > *')].map((e) => e.getBoundingClientRect().bottom); \
        return Math.ceil(Math.max(...ends, 0) + 16)";
    let bottom = browser.script(bottom).await.as_f64().expect("a number");
    let (width, height) = (f64::from(look.width), bottom.min(f64::from(look.height)));
    // README shows the light ones; the others are for whoever wants to know.
    let scale = if look.dark || look.width < 500 { 0.66 } else { 1.0 };
    let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": scale});
    let asked = json!({"format": "webp", "quality": QUALITY, "clip": clip});
    let shot = browser.tool("Page.captureScreenshot", asked).await;
    let bytes = decoded(shot["data"].as_str().expect("a picture"));
    std::fs::write(file, bytes).expect("the directory can be written");
}

/// Base64, as the browser's tools write it.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut out, mut bits, mut count) = (Vec::with_capacity(text.len()), 0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        bits = bits << 6 | u32::from(value(byte));
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

async fn schedules(bed: &Bed) {
    let options = Options { node: "screenshots".to_owned() };
    let scheduler = Scheduler::new(Arc::clone(&bed.store), Arc::clone(&bed.clock), options);
    for (name, when, task_type) in [
        ("nightly-report", "daily at 02:30", "report"),
        ("hourly-cleanup", "every 1h", "cleanup"),
        ("newsletter", "0 9 * * MON", "send_email"),
    ] {
        let spec =
            DefinitionSpec::timed(ScheduleSpec::new(when).tz("Europe/Berlin"), TaskTemplate::new(task_type));
        scheduler.add(&Namespace::default(), name, spec).await.expect("a schedule");
    }
}

/// A change that landed, one that did not, and two in line.
async fn merges(site: &Site, repo: &Repo) {
    let queue = merging::add_queue(site, repo, "shop").await;
    for (branch, file) in
        [("fix-rounding", "a"), ("faster-search", "bad"), ("dark-mode", "b"), ("new-logo", "c")]
    {
        repo.commit(branch, Some("main"), &[(file, "1\n")]);
    }
    let engine = &site.state.merge;
    let mut told = engine.told();
    {
        let _running = merge_side::working(&site.state, repo);
        for branch in ["fix-rounding", "faster-search"] {
            engine.enqueue(&queue, branch, PRIORITY_DEFAULT).await.expect("it is let in");
        }
        while !engine.get(&queue).await.expect("it is there").queue.entries.is_empty() {
            told.changed().await.expect("the engine is there");
        }
    }
    engine.pause(&queue, "release day").await.expect("it is there");
    for branch in ["dark-mode", "new-logo"] {
        engine.enqueue(&queue, branch, PRIORITY_DEFAULT).await.expect("it is let in");
    }
}

/// Names that have no place to break, and many of everything.
async fn long(store: &dyn Store) {
    let name = "a-rather-long-name-that-has-no-place-to-break-".repeat(3);
    for number in 0..30 {
        let task = NewTask::new(format!("{name}{number}")).queue(format!("{name}{}", number % 3));
        let payload = json!({ &name: [&name, &name] }).to_string();
        let task = task.task_group_id(name.clone()).label("team", name.clone()).payload(payload, JSON);
        store.enqueue(task).await.expect("a task");
    }
    let key = RunnerKey {
        namespace: Namespace::default(),
        runner_id: WorkerId::new(name.clone()).expect("a name"),
    };
    let beat = Beat {
        key,
        project_root: Some(format!("/srv/{name}")),
        started_at: Timestamp::MIN,
        queues: (0..3).map(|number| QueueName::new(format!("{name}{number}")).expect("a name")).collect(),
        types: None,
        capacity: 16,
        running: 1,
        draining: false,
    };
    store.beat(vec![beat]).await.expect("a beat");
}

/// An hour of work, and one task of every kind. Gives the id of a dead one.
async fn fill(store: &dyn Store, clock: &ManualClock) -> String {
    let default = Namespace::default();
    for minute in 0..60_u64 {
        clock.advance(Duration::from_secs(60));
        let (succeeded, failed) = (40 + (minute * 7) % 23, (minute * 5) % 17 / 12 * 6);
        let mut waits = vec![0_u64; 31];
        (waits[1], waits[3], waits[6]) = (succeeded, 9, minute % 4);
        let queue = json!({"succeeded": succeeded, "failed": failed, "wait_ms_log2": waits});
        let entry = json!({"worker": WORKER, "span_ms": 60_000, "queues": {"default": queue, "mail": queue}});
        let stream = StreamKey::new(default.clone(), "stats");
        store.append_entries(&stream, &[entry.to_string().into()]).await.expect("an entry");
    }
    let beat = Beat {
        key: RunnerKey { namespace: default.clone(), runner_id: WorkerId::new(WORKER).expect("a name") },
        project_root: None,
        started_at: clock.now(),
        queues: vec![QueueName::default(), QueueName::new("mail").expect("a name")],
        types: None,
        capacity: 16,
        running: 1,
        draining: false,
    };
    store.beat(vec![beat]).await.expect("a beat");
    let mail = |to: &str| {
        NewTask::new("send_email")
            .queue("mail")
            .payload(json!({"to": to, "template": "welcome"}).to_string(), JSON)
    };
    for to in ["ada@example.org", "grace@example.org"] {
        let leased = leased(store, mail(to)).await;
        store
            .mark_succeeded(&leased, Some(json!({"message_id": "m-17"}).to_string().into()))
            .await
            .expect("an end");
    }
    let broken = leased(store, mail("nobody@example.invalid").max_attempts(1)).await;
    let log = StreamKey::attempt_log(&broken.record.key, 1);
    let lines = ["connecting to mx.example.invalid", "\u{1b}[31m550 no such recipient\u{1b}[0m"];
    store.append_entries(&log, &lines.map(|line| line.to_owned().into())).await.expect("lines");
    clock.advance(Duration::from_millis(340));
    store.mark_failed(&broken, "550 no such recipient").await.expect("an end");
    let running =
        leased(store, NewTask::new("transcode").payload(json!({"file": "talk.mp4"}).to_string(), JSON)).await;
    store.enqueue(NewTask::new("report").delay(Duration::from_secs(5400))).await.expect("a task");
    let cancelled = store.enqueue(NewTask::new("cleanup")).await.expect("a task").key;
    store.change(&cancelled, Command::Cancel).await.expect("a change");
    for text in ["The test of the parser fails since Monday. Find out why.", "Mend it, and say what it was."]
    {
        let prompt = weaver_agent::prompt::in_session(weaver_agent::prompt::new_task(text), "parser")
            .task_group_id("repairs");
        store.enqueue(prompt).await.expect("a prompt");
    }
    let paused = weaver_core::ports::QueueSettings { paused: true, max_running: Some(4) };
    let queue = QueueName::new("mail").expect("a name");
    store.put_queue(&default, &queue, paused, weaver_core::ports::Expect::Anything).await.expect("a setting");
    store.enqueue(mail("later@example.org")).await.expect("a task");
    clock.advance(Duration::from_secs(9));
    drop(running);
    broken.record.key.id.to_string()
}

const JSON: weaver_core::task::ContentType = weaver_core::task::ContentType::JSON;

/// A task that has been started.
async fn leased(store: &dyn Store, task: NewTask) -> Leased {
    let key = store.enqueue(task).await.expect("a task").key;
    let record = store.get_task(&key).await.expect("a task");
    let worker = WorkerId::new(WORKER).expect("a name");
    let token = LeaseToken(key.id.to_string().parse().expect("ids are numbers"));
    let request = LeaseRequest::new(key.namespace.clone(), record.spec.queue.clone(), worker, token);
    store.dequeue_ready(request).await.expect("a lease").expect("it is ready")
}
