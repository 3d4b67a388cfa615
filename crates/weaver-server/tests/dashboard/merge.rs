//! Merge queues: from enqueue to landing certificate, with a real repository and real checks.

use reqwest::StatusCode;
use weaver_server::security::Role;
use weaver_testkit::services::browser::{Driver, axe_script};

use crate::accessibility::violations;
use crate::browser::{Browser, Viewport};
use crate::login::{log_in, page_of, post};
use crate::merge_repo::{add_queue, repository};
use crate::merge_side::working;
use crate::repo::Repo;
use crate::schedules::{encoded, fits};
use crate::site::{Harness, Site};
use crate::untrusted::{CORPUS, harmless};

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_enqueued_reordered_removed_tested_and_landed_on_the_embedded_store() {
    walkthrough(&Harness::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_enqueued_reordered_removed_tested_and_landed_on_postgresql() {
    walkthrough(&Harness::postgres().await).await;
}

async fn walkthrough(harness: &Harness) {
    let (site, driver, repo) = (Site::start(harness).await, Driver::start(), repository("looking at it"));
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    browser.press("Merge queues").await;
    browser.sees(".empty", "weaver merge add-repo").await;
    add_queue(&site, &repo, "demo").await;
    for (branch, file) in [("good", "a"), ("worse", "bad"), ("third", "b")] {
        repo.commit(branch, Some("main"), &[(file, "1\n")]);
    }
    browser.go(&site.url("/merge")).await;
    browser.press("demo:main").await;
    enqueue(&browser).await;
    let by = format!("by {}", producer(&site).await);
    let head = |branch: &str| repo.git(&["rev-parse", branch])[..10].to_owned();
    for text in [&head("good"), &by] {
        browser.sees("[data-key='1'] td", text).await;
    }
    let _running = working(&site.state, &repo);
    browser.press("Resume").await;
    browser.sees("[data-key=history-1]", "landed").await;
    browser.sees("[data-key=history-2]", "check failed that passes on the base branch: unit").await;
    for (key, branch) in [("history-1", "good"), ("history-2", "worse")] {
        for text in [&head(branch), &by] {
            browser.sees(&format!("[data-key={key}] td"), text).await;
        }
    }
    history(&browser, &repo, &by).await;
    browser.press("Audit log").await;
    browser.sees("td", &format!("good at {}", repo.git(&["rev-parse", "good"]))).await;
    for action in ["pause", "resume", "enqueue", "priority", "cancel", "queue_priority"] {
        browser.sees("td", &format!("merge.{action}")).await;
    }
    browser.press("merge/demo:main/1").await;
    browser.sees("h1", "Change good").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
    site.stop().await;
}

/// Who enqueued the first entry, as it is stored.
async fn producer(site: &Site) -> String {
    let queue = site.state.merge.queues().await.expect("they are listed").remove(0);
    queue.entries[0].enqueued_by.clone().expect("it is stored")
}

/// On a paused queue: enqueue, refusal, priorities and removal.
async fn enqueue(browser: &Browser) {
    browser.sees(".empty", "weaver merge enqueue").await;
    browser.type_into("input[name=reason]", "release day").await;
    browser.press("Pause").await;
    browser.sees(".alert", "release day").await;
    for (number, change) in ["good", "worse", "third"].into_iter().enumerate() {
        browser.type_into("input[name=change]", change).await;
        browser.press("Enqueue").await;
        browser.sees(&format!("[data-key='{}']", number + 1), change).await;
    }
    browser.type_into("input[name=change]", "missing").await;
    browser.press("Enqueue").await;
    browser.sees(".alert", "Not enqueued").await;
    browser.until("document.querySelector('input[name=change]').value === 'missing'").await;
    browser.press("All merge queues").await;
    browser.sees("[data-key='demo:main']", "paused").await;
    browser.press("demo:main").await;
    browser.sees("[data-key='3'] td", "3").await;
    browser.click("[data-key='3'] option[value='0']").await;
    browser.click("[data-key='3'] button[value=priority]").await;
    browser.until("document.querySelector('tbody tr').dataset.key === '3'").await;
    browser.click("[data-key='3'] .danger").await;
    browser.sees("[data-key=history-3]", "removed by a user").await;
    browser.click(".row option[value='2']").await;
    browser.click(".row button[value=priority]").await;
    browser.until("document.querySelector('.row select').value === '2'").await;
}

/// The log of the failed check, and the landing certificate of the other entry.
async fn history(browser: &Browser, repo: &Repo, by: &str) {
    browser.press("worse").await;
    browser.sees(".reasons", "Not landed").await;
    browser.sees(".timeline", "on the base branch, for comparison").await;
    browser.sees(".timeline pre", "looking at it").await;
    browser.click(".timeline a").await;
    browser.sees("h1", "Task").await;
    browser.sees("#log", "looking at it").await;
    browser.press("Overview").await;
    browser.sees("[data-key='demo:main']", "1").await;
    browser.press("demo:main").await;
    browser.press("good").await;
    browser.sees("#certificate", repo.git(&["rev-parse", "main"]).as_str()).await;
    browser.sees(".details", repo.git(&["rev-parse", "good"]).as_str()).await;
    browser.sees(".details", by).await;
    browser.press("Verify against the repository").await;
    browser.sees(".done", "What is on the branch is what was tested").await;
}

#[tokio::test]
async fn the_landed_change_that_a_conflict_is_with_is_named_in_the_history_and_when_it_is_enqueued_again() {
    let harness = Harness::memory();
    let (site, repo) = (Site::start(&harness).await, repository("x"));
    let queue = add_queue(&site, &repo, "demo").await;
    for branch in ["good", "clash"] {
        repo.commit(branch, Some("main"), &[("README", branch)]);
        site.state.merge.enqueue(&queue, branch, 5).await.expect("an entry");
    }
    let mut published = site.state.merge.published();
    let _running = working(&site.state, &repo);
    while !site.state.merge.get(&queue).await.expect("the queue").queue.entries.is_empty() {
        published.changed().await.expect("the engine is there");
    }
    let (admin, key) = log_in(&site, Role::Admin).await;
    let here = "/merge/queue?id=demo%3Amain";
    let commit = repo.git(&["rev-parse", "main"]);
    for path in [here, "/merge/entry?queue=demo%3Amain&entry=2"] {
        let text = page_of(&site, &admin, path).await.text().await.expect("a page");
        assert!(text.contains("collides with entry 1 (good), landed as "), "{path}: {text}");
        assert!(text.contains(&format!("<code title=\"{commit}\">")), "{path}: {text}");
    }
    let fields = [("action", "enqueue"), ("change", "clash"), ("form_key", key.as_str())];
    let refused = post(&site, here, &admin, &site.url(""), &fields).await;
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    let text = refused.text().await.expect("a page");
    assert!(text.contains(&format!("in README; with entry 1 (`good`), landed as {commit}")), "{text}");
}

#[tokio::test]
async fn merge_queue_forms_need_their_permission_their_form_key_and_our_origin() {
    let harness = Harness::memory();
    let (site, repo) = (Site::start(&harness).await, repository("x"));
    let queue = add_queue(&site, &repo, "demo").await;
    for branch in ["a", "b"] {
        repo.commit(branch, Some("main"), &[(branch, "1\n")]);
    }
    site.state.merge.enqueue(&queue, "a", 5).await.expect("an entry");
    let (viewer, viewer_key) = log_in(&site, Role::Viewer).await;
    let (admin, admin_key) = log_in(&site, Role::Admin).await;
    let entry = "/merge/entry?queue=demo%3Amain&entry=1";
    for path in ["/merge", "/merge/queue?id=demo%3Amain", entry] {
        let text = page_of(&site, &viewer, path).await.text().await.expect("a page");
        let forms = text.matches("method=\"post\"").count() - text.matches("action=\"/logout\"").count();
        assert_eq!(forms, 0, "a viewer is offered something on {path}: {text}");
    }
    let here = "/merge/queue?id=demo%3Amain";
    let forms: [(&str, &[(&str, &str)]); 8] = [
        (here, &[("action", "pause")]),
        (here, &[("action", "resume")]),
        (here, &[("action", "priority"), ("priority", "0")]),
        (here, &[("action", "enqueue"), ("change", "b")]),
        (here, &[("action", "remove")]),
        (here, &[("action", "remove"), ("confirmed", "yes"), ("cancel_entries", "yes")]),
        (entry, &[("action", "cancel")]),
        (entry, &[("action", "priority"), ("priority", "0")]),
    ];
    let own = site.url("");
    for (path, fields) in forms {
        for (who, cookie, origin, key) in [
            ("a viewer", &viewer, own.as_str(), viewer_key.as_str()),
            ("no key", &admin, &own, ""),
            ("another's key", &admin, &own, &viewer_key),
            ("another site", &admin, "http://evil.example", &admin_key),
        ] {
            let fields: Vec<_> = fields.iter().copied().chain([("form_key", key)]).collect();
            let answer = post(&site, path, cookie, origin, &fields).await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{who}: {path} {fields:?}");
        }
    }
    // A producer may enqueue a change, and nothing else.
    let (producer, key) = log_in(&site, Role::Producer).await;
    let send = async |fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields.iter().copied().chain([("form_key", key.as_str())]).collect();
        post(&site, here, &producer, &own, &fields).await.status()
    };
    assert_eq!(send(&[("action", "pause")]).await, StatusCode::FORBIDDEN);
    let stored = site.state.merge.get(&queue).await.expect("the queue").queue;
    assert!(
        stored.paused.is_none() && stored.entries.len() == 1 && stored.entries[0].priority == 5,
        "{stored:?}"
    );
    assert_eq!(send(&[("action", "enqueue"), ("change", "b")]).await, StatusCode::SEE_OTHER);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_change_or_its_checks_is_never_markup_and_merge_pages_are_accessible() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let (site, repo) = (Site::start(&harness).await, repository(CORPUS[0]));
    let name = "\"><img/src=x/onerror=window.pwned=1>";
    let queue = add_queue(&site, &repo, name).await;
    // Names of branches may hold all of this; they may not hold spaces.
    let bad = "<script>window.pwned=1</script>\u{202e}";
    let odd = "'autofocus/onfocus='window.pwned=1-".repeat(3);
    repo.commit(bad, Some("main"), &[("bad", "1\n")]);
    repo.commit(&odd, Some("main"), &[(CORPUS[1], "1\n")]);
    let engine = &site.state.merge;
    engine.enqueue(&queue, bad, 5).await.expect("an entry");
    engine.enqueue(&queue, odd.as_str(), 5).await.expect("an entry");
    // A conflict in a file of this name. The push itself is accepted, as it is not the subject here.
    let accept = Some(weaver_merge::domain::OnForeign::Accept);
    engine.set_on_foreign(&queue, accept).await.expect("a setting");
    repo.commit("main", None, &[(CORPUS[1], "2\n")]);
    let running = working(&site.state, &repo);
    let browser = Browser::open(&driver).await;
    browser.enter(&site.link(Role::Admin).await).await;
    browser.sees("h1", "Overview").await;
    let (here, entry) = (format!("/merge/queue?id={}", encoded(&queue.0)), |number: u32| {
        format!("/merge/entry?queue={}&entry={number}", encoded(&queue.0))
    });
    browser.go(&site.url(&here)).await;
    browser.sees("[data-key=history-1]", "failed").await;
    browser.sees("[data-key=history-2]", "conflicts with the base branch in").await;
    drop(running);
    repo.commit("later", Some("main"), &[("c", "1\n")]);
    engine.enqueue(&queue, "later", 5).await.expect("an entry");
    engine.pause(&queue, CORPUS[2]).await.expect("a pause");
    let pages =
        ["/".to_owned(), "/merge".to_owned(), here, entry(1), entry(2), entry(3), "/audit".to_owned()];
    let axe = axe_script();
    for page in &pages {
        browser.go(&site.url(page)).await;
        browser.sees("h1", "").await;
        harmless(&browser, page).await;
        for dark in [false, true] {
            browser.set_viewport(Viewport { dark, ..Viewport::default() }).await;
            assert_eq!(violations(&browser, &axe).await, Vec::<String>::new(), "{page}, dark: {dark}");
        }
        browser.set_viewport(Viewport { width: 375, height: 800, dark: false }).await;
        fits(&browser, page).await;
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    browser.close().await;
}
