//! Many tasks at once, by a filter, against a server: counted first, then cancelled, then put in again.

use serde_json::json;

use crate::server::Server;
use crate::support::Place;

#[test]
fn many_are_cancelled_and_retried_by_filter_and_a_dry_run_only_counts() {
    let place = Place::with_store();
    let server = Server::start(&place, "serve --queues nothing");
    let run = |arguments: &str| server.run(&place, arguments);
    for number in 0..6 {
        let queue = if number < 4 { "drop" } else { "keep" };
        run(&format!("enqueue unhandled {number} --queue {queue} --label team=t{}", number % 2)).succeeded();
    }
    let count = |filter: &str| {
        let page = run(&format!("tasks list {filter} --output json")).json();
        page["items"].as_array().expect("a list").len()
    };
    // A dry run says how many, as text and as JSON, and leaves them alone.
    let counted = run("tasks cancel --matching --queue drop --dry-run");
    assert_eq!(counted.succeeded(), "4 tasks match; dry run, nothing was changed.\n");
    let counted = run("tasks cancel --matching --queue drop --label team=t1 --dry-run --output json").json();
    assert_eq!(counted, json!({"matched": 2, "changed": 0, "refused": 0, "dry_run": true}));
    assert_eq!(count("--state queued"), 6);
    // The same without it does what was counted, and no more.
    assert_eq!(
        run("tasks cancel --matching --queue drop --label team=t1").succeeded(),
        "Cancelled 2 of 2 tasks.\n"
    );
    assert_eq!(run("tasks cancel --matching --queue drop").succeeded(), "Cancelled 2 of 2 tasks.\n");
    assert_eq!((count("--state cancelled"), count("--state queued --queue keep")), (4, 2));
    let counted = run("tasks retry --matching --queue drop --state cancelled --dry-run");
    assert_eq!(counted.succeeded(), "4 tasks match; dry run, nothing was changed.\n");
    assert_eq!(count("--state queued"), 2);
    run("tasks retry --matching --queue drop --state cancelled").succeeded();
    assert_eq!((count("--state queued --queue drop"), count("--state cancelled")), (4, 4));
    server.stop().succeeded();
}

#[test]
fn a_filter_goes_with_matching_and_never_beside_ids() {
    let place = Place::new();
    place.run("tasks cancel").failed(2, &["<IDS>"]);
    place.run("tasks cancel 17 --matching").failed(2, &["--matching"]);
    // Beside an id they would be left out, and a dry run would not be one.
    place.run("tasks cancel 17 --queue mail").failed(2, &["--queue", "cannot be used with"]);
    place.run("tasks retry 17 --dry-run").failed(2, &["--dry-run", "cannot be used with"]);
    place.run("tasks retry --state dead").failed(2, &["--matching"]);
}

#[test]
fn all_tasks_of_a_namespace_are_changed_only_with_all_and_a_confirmation() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory: --queues nothing");
    let run = |arguments: &str| server.run(&place, arguments);
    for _ in 0..3 {
        run("enqueue unhandled").succeeded();
    }
    for verb in ["cancel", "retry"] {
        run(&format!("tasks {verb} --matching")).failed(2, &["all tasks of namespace `default`", "--all"]);
        run(&format!("tasks {verb} --matching --yes")).failed(2, &["--all"]);
        run(&format!("tasks {verb} --matching --dry-run")).failed(2, &["--all"]);
    }
    run("tasks cancel --matching --all").failed(6, &["all 3 tasks", "not confirmed", "--yes"]);
    run("tasks cancel --matching --all --queue default").failed(2, &["--all", "cannot be used with"]);
    let counted = run("tasks cancel --matching --all --dry-run").succeeded();
    assert_eq!(counted, "3 tasks match; dry run, nothing was changed.\n");
    assert_eq!(run("tasks cancel --matching --all --yes").succeeded(), "Cancelled 3 of 3 tasks.\n");
    // Of those that failed for good, as ever.
    run("tasks retry --matching --all").failed(6, &["retry all 0 tasks", "--yes"]);
}

#[test]
fn enqueue_with_wait_warns_that_no_worker_serves_the_task_and_times_out() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory:");
    let run = |arguments: &str| server.run(&place, arguments);
    run("enqueue unhandled --wait --wait-timeout 10ms")
        .failed(4, &["no worker serves task 1", "timed out: task 1 is queued", "tasks cancel 1"]);
    run("enqueue unhandled --wait-timeout 10ms").failed(2, &["--wait"]);
}
