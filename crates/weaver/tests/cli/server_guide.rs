//! The guide to the server, typed as a reader would.

use std::path::Path;
use std::process::Command;

use crate::server::Server;
use crate::support::{Place, Run, WEAVER};

#[test]
fn every_command_of_the_server_guide_succeeds_in_its_order() {
    let guide = include_str!("../../../../docs/guides/server.md");
    let blocks = guide.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<&str> =
        blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")).collect();
    let [serve, commands @ ..] = &commands[..] else { panic!("the guide has no commands") };
    assert_eq!(*serve, "weaver serve");
    assert!(commands.len() > 15, "{commands:?}");
    let place = Place::new();
    let server = Server::start(&place, "serve");
    let directory = Path::new(WEAVER).parent().expect("the binary is in a directory");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
    for command in commands {
        // The port of the guide may be taken on this machine.
        let here = command.replace("http://127.0.0.1:7117", &server.address);
        let mut shell = Command::new("sh");
        shell.args(["-c", &here]).current_dir(place.path("")).env("PATH", &path);
        shell.env("WEAVER_SERVER", &server.address);
        let run = Run::of(&mut shell);
        assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
        assert!(!run.out.is_empty(), "{command} says nothing");
    }
    assert_eq!(server.stop().code, Some(0));
}
