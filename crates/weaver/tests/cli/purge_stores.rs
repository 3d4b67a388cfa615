//! Unreadable, live and finished tasks on real stores: seen, explained, removed, with their stored form kept.

use crate::postgres::{Database, Node};
use crate::server::Server;
use crate::support::Place;

#[test]
fn a_bad_row_of_a_database_is_listed_and_purged_and_the_others_go_on() {
    let database = Database::new("purge");
    let node = Node::start(&database);
    let run = |arguments: &str| node.run(&database, arguments);
    let enqueue = || run("enqueue unhandled --queue mail --serial-key k").succeeded().trim().to_owned();
    let (bad, good) = (enqueue(), enqueue());
    database.by_hand(&format!("UPDATE weaver.tasks SET labels = '7' WHERE id = {bad}"));
    // A list skips it, and a request for it says why and what to do.
    let listed = run("tasks list --output json").json();
    assert_eq!(
        (listed["items"].as_array().map(Vec::len), &listed["items"][0]["id"]),
        (Some(1), &good.clone().into())
    );
    run(&format!("tasks show {bad}"))
        .failed(6, &["cannot be read", &format!("weaver tasks purge {bad} --yes")]);
    run(&format!("tasks cancel {bad}")).failed(6, &["cannot be read"]);
    let quarantine = run("tasks quarantine --output json").json();
    let found = &quarantine["items"][0];
    assert_eq!(
        (&found["id"], &found["holds"]["serial_key"]),
        (&bad.clone().into(), &"k".into()),
        "{quarantine}"
    );
    assert!(run("doctor").succeeded().contains("1 task unreadable"));
    // The way out.
    run(&format!("tasks purge {bad}")).failed(6, &["not confirmed", "--yes"]);
    run(&format!("tasks purge {bad} --yes")).succeeded();
    let saved: serde_json::Value =
        serde_json::from_str(&node.place.read(&format!("weaver-task-{bad}.json"))).expect("it is JSON");
    assert_eq!((&saved["labels"], &saved["queue"]), (&7.into(), &"mail".into()), "{saved}");
    run(&format!("tasks show {bad}")).failed(3, &["not found"]);
    assert_eq!(run("tasks quarantine --output json").json()["items"], serde_json::json!([]));
    assert!(run("store check").succeeded().contains("no problems found"));
    run(&format!("tasks show {good}")).succeeded();
}

#[test]
fn a_live_task_is_purged_with_a_yes_and_a_finished_one_without() {
    for store in ["memory:", "./weaver-data"] {
        let place = Place::new();
        let server = Server::start(&place, &format!("serve --queues nothing --store {store}"));
        let run = |arguments: &str| server.run(&place, arguments);
        let enqueue = || run("enqueue unhandled {\"a\":1}").succeeded().trim().to_owned();
        let (live, ended) = (enqueue(), enqueue());
        run(&format!("tasks cancel {ended}")).succeeded();
        run(&format!("tasks purge {live}")).failed(6, &["has not ended (state queued)", "--yes"]);
        for command in [format!("tasks purge {live} --yes"), format!("tasks purge {ended}")] {
            assert!(run(&command).succeeded().contains("is deleted"), "{store}");
        }
        // Each store has a form of its own; it is JSON in all of them.
        let saved = place.read(&format!("weaver-task-{live}.json"));
        let saved: serde_json::Value = serde_json::from_str(&saved).expect("it is JSON");
        assert!(saved.is_object(), "{store}: {saved}");
        for id in [&live, &ended] {
            run(&format!("tasks show {id}")).failed(3, &["not found"]);
        }
        assert_eq!(run("tasks list --output json").json()["items"], serde_json::json!([]));
    }
}
