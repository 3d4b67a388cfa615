//! The guide to schedules, typed as a reader would; and what it promises happens.

use crate::guide::commands;
use crate::server::Server;
use crate::support::{Place, Run, shell};

#[test]
fn every_command_of_the_guide_to_schedules_succeeds_and_what_is_due_runs() {
    let guide = include_str!("../../../../docs/guides/schedules.md");
    let commands = commands(guide);
    let [serve, commands @ ..] = &commands[..] else { panic!("the guide has no commands") };
    assert_eq!(*serve, "weaver serve");
    assert!(commands.len() > 25, "{commands:?}");
    let place = Place::new();
    let toml = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    place.write("weaver.toml", toml.expect("the guide shows a configuration"));
    let server = Server::start(&place, "serve");
    let mut receipts = 0;
    for command in commands {
        // The port of the guide may be taken on this machine.
        let here = command.replace("http://127.0.0.1:7117", &server.address);
        let run = Run::of(&mut shell(&place, &here));
        assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
        assert!(!run.out.is_empty(), "{command} says nothing");
        if command.contains("job_definition=pulse") {
            until(&server, &place, "job_definition=pulse", 1);
        }
        if command.contains("--wait") {
            assert!(run.out.contains("good morning"), "{}", run.out);
        }
        receipts += usize::from(command.contains("order-18") || command.contains("event emit"));
    }
    // Three were emitted, two of them with one key.
    assert_eq!(receipts, 3);
    until(&server, &place, "job_definition=receipt", 2);
    let listed = server.run(&place, "tasks list --label job_definition=receipt --output json").json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(server.stop().code, Some(0));
}

/// Waits until so many tasks with a label have succeeded.
#[track_caller]
fn until(server: &Server, place: &Place, label: &str, count: usize) {
    let list = format!("tasks list --state succeeded --label {label} --output json");
    // Each look takes as long as a command takes to start.
    let looks = (0..1000).map(|_| server.run(place, &list).json());
    let done = looks.map(|listed| listed["items"].as_array().map_or(0, Vec::len)).any(|found| found >= count);
    assert!(done, "not {count} with {label}");
}
