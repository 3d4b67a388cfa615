//! The guide to the server, typed as a reader would.

use crate::guide::commands;
use crate::server::Server;
use crate::support::{Place, Run, shell};

#[test]
fn every_command_of_the_server_guide_succeeds_in_its_order() {
    let guide = include_str!("../../../../docs/guides/server.md");
    let commands = commands(guide);
    let [serve, commands @ ..] = &commands[..] else { panic!("the guide has no commands") };
    assert_eq!(*serve, "weaver serve");
    assert!(commands.len() > 15, "{commands:?}");
    let place = Place::new();
    let server = Server::start(&place, "serve");
    for command in commands {
        // The port of the guide may be taken on this machine.
        let here = command.replace("http://127.0.0.1:7117", &server.address);
        let run = Run::of(&mut shell(&place, &here));
        assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
        assert!(!run.out.is_empty(), "{command} says nothing");
    }
    assert_eq!(server.stop().code, Some(0));
}
