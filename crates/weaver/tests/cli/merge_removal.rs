//! `weaver merge remove-repo`, and queues of a namespace.

use crate::merge::repository;
use crate::server::Server;
use crate::support::{Place, Run};

#[test]
fn a_queue_is_removed_and_continues_when_its_repository_is_added_again() {
    for is_served in [true, false] {
        let place = Place::new();
        repository(&place, &["one", "two"]);
        let server = is_served.then(|| Server::start(&place, "serve"));
        let merge = |words: &str| match &server {
            Some(server) => server.run(&place, &format!("merge {words}")),
            None => place.run(&format!("merge {words} --store ./weaver-data")),
        };
        merge("add-repo project.git").succeeded();
        merge("pause").succeeded();
        merge("enqueue --head one").succeeded();
        merge("remove-repo project:release").failed(3, &["no such merge queue: `project:release`"]);
        merge("remove-repo project:main").failed(6, &["1 open entries", "--cancel-entries"]);
        let removed = merge("remove-repo project:main --cancel-entries").succeeded();
        assert!(removed.contains("Removed merge queue project:main; 1 entries cancelled"), "{removed}");
        merge("status").failed(3, &["no merge queue found"]);
        merge("enqueue --head two --queue project:main").failed(6, &["was removed", "add"]);
        let status = merge("status --queue project:main").succeeded();
        assert!(status.contains("Removed at") && status.contains("queue_removed"), "{status}");
        merge("verify --all --queue project:main").succeeded();
        merge("remove-repo project:main").succeeded();
        merge("add-repo project.git").succeeded();
        let enqueued = merge("enqueue --head two").succeeded();
        assert!(enqueued.contains("as entry 2"), "{enqueued}");
        match &server {
            Some(_) => drop(merge("wait").succeeded()),
            None => drop(merge("run --until-idle").succeeded()),
        }
        let shown = merge("show 2").succeeded();
        assert!(shown.contains("landed"), "{shown}");
        merge("verify --all").succeeded();
        if let Some(server) = server {
            assert_eq!(server.stop().code, Some(0));
        }
    }
}

#[test]
fn a_server_checks_and_lands_for_a_namespace_whose_tokens_alone_see_the_queue() {
    let place = Place::new();
    repository(&place, &["one", "two"]);
    let server = Server::start(&place, "serve");
    server.run(&place, "merge add-repo project.git --namespace team-a").succeeded();
    let token = |namespaces: &str| {
        let create =
            format!("tokens create {namespaces} --role producer --namespaces {namespaces} --output json");
        server.run(&place, &create).json()["token"].as_str().expect("a token").to_owned()
    };
    let with = |token: &str, words: &str| {
        let mut command = place.command(&format!("merge {words}"));
        Run::of(command.env("WEAVER_SERVER", &server.address).env("WEAVER_TOKEN", token))
    };
    let (ours, theirs) = (token("team-a"), token("team-b,default"));
    with(&theirs, "enqueue --head one --queue project:main")
        .failed(3, &["no such merge queue: `project:main`"]);
    with(&theirs, "enqueue --head one").failed(3, &["no merge queue found"]);
    let landed = with(&ours, "enqueue --head one --wait").succeeded();
    assert!(landed.contains("landed") && landed.contains("namespace team-a"), "{landed}");
    let entry = with(&ours, "show 1 --output json").json();
    let task = entry["checks"][0]["runs"][0]["task"].as_str().expect("a task").to_owned();
    let logs = |token: &str, namespace: &str| {
        let mut command = place.command(&format!("tasks show {task} --namespace {namespace}"));
        Run::of(command.env("WEAVER_SERVER", &server.address).env("WEAVER_TOKEN", token))
    };
    logs(&ours, "team-a").succeeded();
    logs(&theirs, "team-a").failed(6, &["outside this token's scope"]);
    logs(&theirs, "default").failed(3, &[]);
    // The same queue without a server.
    assert_eq!(server.stop().code, Some(0));
    let on_store = |words: &str| place.run(&format!("merge {words} --store ./weaver-data"));
    assert!(on_store("status").succeeded().contains("namespace `team-a`"));
    on_store("add-repo project.git --name other --namespace team-b")
        .failed(6, &["already has a merge queue"]);
    on_store("add-repo project.git --namespace team-b").failed(6, &["is taken"]);
    on_store("add-repo project.git --namespace weaver.internal").failed(6, &["reserved"]);
    on_store("add-repo project.git --namespace 'a/\u{1}'").failed(2, &["--namespace"]);
    on_store("enqueue --head two").succeeded();
    on_store("run --until-idle").succeeded();
    assert!(on_store("show 2").succeeded().contains("landed"));
}
