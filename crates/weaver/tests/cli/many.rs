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
        run(&format!("enqueue nobody {number} --queue {queue} --label team=t{}", number % 2)).succeeded();
    }
    let count = |filter: &str| {
        let page = run(&format!("tasks list {filter} --output json")).json();
        page["items"].as_array().expect("a list").len()
    };
    // A dry run says how many, as text and as JSON, and leaves them alone.
    let counted = run("tasks cancel --matching --queue drop --dry-run");
    assert_eq!(counted.succeeded(), "4 tasks match; nothing was changed.\n");
    let counted = run("tasks cancel --matching --queue drop --label team=t1 --dry-run --output json").json();
    assert_eq!(counted, json!({"matched": 2, "done": 0, "refused": 0, "dry_run": true}));
    assert_eq!(count("--state queued"), 6);
    // The same without it does what was counted, and no more.
    assert_eq!(run("tasks cancel --matching --queue drop --label team=t1").succeeded(), "2 of 2 tasks.\n");
    assert_eq!(run("tasks cancel --matching --queue drop").succeeded(), "2 of 2 tasks.\n");
    assert_eq!((count("--state cancelled"), count("--state queued --queue keep")), (4, 2));
    let counted = run("tasks retry --matching --queue drop --state cancelled --dry-run");
    assert_eq!(counted.succeeded(), "4 tasks match; nothing was changed.\n");
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
