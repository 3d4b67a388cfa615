//! Pages of merge queues of one namespace, for sessions of another; and the removal of a queue.

use reqwest::StatusCode;
use weaver_core::name::Namespace;
use weaver_server::security::{NamespaceScope, Role};

use crate::login::{log_in_with, page_of, post};
use crate::merge_repo::repository;
use crate::site::{Harness, Site};
use weaver_merge::domain::{QueueId, Repository};

fn team(name: &str) -> Namespace {
    Namespace::new(format!("team-{name}")).expect("a name")
}

/// A session of a namespace: its cookie and form key.
async fn session(site: &Site, role: Role, namespace: Namespace) -> (String, String) {
    let token = site.token_for(role, NamespaceScope::Only([namespace].into())).await;
    log_in_with(site, &token).await
}

/// The queue `hidden:main` of `team-a`, with an entry.
async fn hidden(site: &Site, repo: &crate::repo::Repo) -> QueueId {
    let location = repo.path().to_str().expect("a path").to_owned();
    let repository = Repository { name: "hidden".to_owned(), location };
    let merge = &site.state.merge;
    let queue = merge.add_queue_in(&team("a"), repository, "main", |_| true).await.expect("a queue").id;
    repo.commit("a", Some("main"), &[("a", "1\n")]);
    merge.enqueue(&queue, "a", 5).await.expect("an entry");
    queue
}

const FORMS: [(&str, &[(&str, &str)]); 9] = [
    ("/merge/queue?id=NAME", &[("action", "pause")]),
    ("/merge/queue?id=NAME", &[("action", "resume")]),
    ("/merge/queue?id=NAME", &[("action", "accept"), ("commit", "abababababababababababababababababababab")]),
    ("/merge/queue?id=NAME", &[("action", "priority"), ("priority", "0")]),
    ("/merge/queue?id=NAME", &[("action", "enqueue"), ("change", "a")]),
    ("/merge/queue?id=NAME", &[("action", "remove")]),
    ("/merge/queue?id=NAME", &[("action", "remove"), ("confirmed", "yes"), ("cancel_entries", "yes")]),
    ("/merge/entry?queue=NAME&entry=1", &[("action", "cancel")]),
    ("/merge/entry?queue=NAME&entry=1", &[("action", "priority"), ("priority", "0")]),
];

#[tokio::test]
async fn pages_and_forms_of_a_hidden_queue_are_like_those_of_one_that_does_not_exist() {
    let harness = Harness::memory();
    let (site, repo) = (Site::start(&harness).await, repository("x"));
    let queue = hidden(&site, &repo).await;
    let before = site.state.merge.get(&queue).await.expect("the queue").queue;
    let (attacker, key) = session(&site, Role::Admin, team("b")).await;
    let own = site.url("");
    for path in [
        "/merge/queue?id=NAME",
        "/merge/entry?queue=NAME&entry=1",
        "/merge/entry?queue=NAME&entry=1&verify=yes",
    ] {
        let mut pages = Vec::new();
        for name in ["hidden:main", "absent:main"] {
            let page = page_of(&site, &attacker, &path.replace("NAME", name)).await;
            assert_eq!(page.status(), StatusCode::NOT_FOUND, "{path} of {name}");
            pages.push(page.text().await.expect("a page").replace(name, "NAME"));
        }
        assert_eq!(pages[0], pages[1], "{path}");
    }
    for (path, fields) in FORMS {
        let mut pages = Vec::new();
        for name in ["hidden:main", "absent:main"] {
            let fields: Vec<_> = fields.iter().copied().chain([("form_key", key.as_str())]).collect();
            let answer = post(&site, &path.replace("NAME", name), &attacker, &own, &fields).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path} of {name}: {fields:?}");
            pages.push(answer.text().await.expect("a page").replace(name, "NAME"));
        }
        assert_eq!(pages[0], pages[1], "{path} {fields:?}");
    }
    for path in ["/", "/merge", "/audit"] {
        let page = page_of(&site, &attacker, path).await;
        assert_eq!(page.status(), StatusCode::OK, "{path}");
        assert!(!page.text().await.expect("a page").contains("hidden:main"), "{path}");
    }
    assert_eq!(site.state.merge.get(&queue).await.expect("the queue").queue, before, "nothing changed");
}

#[tokio::test]
async fn the_team_of_a_queue_sees_it_and_removes_it_after_a_confirmation() {
    let harness = Harness::memory();
    let (site, repo) = (Site::start(&harness).await, repository("x"));
    let queue = hidden(&site, &repo).await;
    let (operator, key) = session(&site, Role::Operator, team("a")).await;
    for path in ["/", "/merge", "/merge/queue?id=hidden:main", "/merge/entry?queue=hidden:main&entry=1"] {
        let page = page_of(&site, &operator, path).await;
        assert_eq!(page.status(), StatusCode::OK, "{path}");
        assert!(page.text().await.expect("a page").contains("hidden:main"), "{path}");
    }
    let here = "/merge/queue?id=hidden:main";
    let own = site.url("");
    let send = async |fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields.iter().copied().chain([("form_key", key.as_str())]).collect();
        post(&site, here, &operator, &own, &fields).await
    };
    let asked = send(&[("action", "remove")]).await.text().await.expect("a page");
    assert!(asked.contains("Remove merge queue") && asked.contains("1 entry"), "{asked}");
    assert!(asked.contains("name=\"cancel_entries\""), "{asked}");
    assert!(site.state.merge.get(&queue).await.expect("the queue").queue.removal.is_none(), "it only asks");
    let refused = send(&[("action", "remove"), ("confirmed", "yes")]).await;
    assert_eq!(refused.status(), StatusCode::CONFLICT, "an entry that was not confirmed");
    let done = send(&[("action", "remove"), ("confirmed", "yes"), ("cancel_entries", "yes")]).await;
    assert_eq!(done.status(), StatusCode::SEE_OTHER);
    let page = page_of(&site, &operator, here).await.text().await.expect("a page");
    assert!(page.contains("Removed") && page.contains("the queue was removed"), "{page}");
    let forms = page.matches("method=\"post\"").count() - page.matches("action=\"/logout\"").count();
    assert_eq!(forms, 0, "nothing is offered for a removed queue: {page}");
    let list = page_of(&site, &operator, "/merge").await.text().await.expect("a page");
    assert!(!list.contains("hidden:main"), "{list}");
}
