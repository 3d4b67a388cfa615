//! `weaver doctor`: findings and next steps.

use serde_json::Value;

use crate::support::{Place, Run};

/// The verdict and the next step of a check, as JSON, whatever the exit code is.
fn verdict(run: &Run, check: &str, verdict: &str) -> (String, String) {
    let answer: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.out));
    let checks = answer["checks"].as_array().expect("checks are listed");
    let found = checks.iter().find(|found| found["check"] == check && found["verdict"] == verdict);
    let found = found.unwrap_or_else(|| panic!("no {check} with {verdict} in {answer:#}"));
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("detail"), text("next"))
}

#[test]
fn a_healthy_store_is_ok_in_every_line_and_doctor_changes_nothing() {
    let place = Place::with_store();
    let before = place.read("weaver-data/LOCK");
    let run = place.run("doctor --output json");
    assert_eq!(run.code, Some(0), "{}", run.out);
    for check in ["version", "config", "store", "rights", "lock", "disk"] {
        verdict(&run, check, "ok");
    }
    assert_eq!(place.read("weaver-data/LOCK"), before);
    assert!(place.run("doctor").succeeded().lines().all(|line| line.starts_with("ok ")));
}

#[test]
fn commands_can_be_confined_here_and_those_that_are_not_are_named() {
    let place = Place::with_store();
    let run = place.run("doctor --output json");
    assert_eq!(verdict(&run, "confine", "ok").0, "commands can be confined");
    place.write(
        "weaver.toml",
        "[confine.check]\nunconfined = true\n[handlers.exec]\nworking_root = \"/\"\n\
         [handlers.exec.commands.open]\nprogram = \"/bin/true\"\nconfine.unconfined = true\n\
         [handlers.exec.commands.shut]\nprogram = \"/bin/true\"\n\
         [profiles.free]\ncommand = [\"true\"]\nconfine.unconfined = true\n",
    );
    let (detail, next) = verdict(&place.run("doctor --output json"), "confine", "warn");
    for name in ["merge checks", "handlers.exec.commands.open", "profiles.free"] {
        assert!(detail.contains(name), "{detail}");
    }
    assert!(!detail.contains("shut") && next.contains("unconfined = true"), "{detail} {next}");
}

#[test]
fn rules_that_would_show_the_store_are_a_failure_and_the_server_starts_all_the_same() {
    let place = Place::with_store();
    let store = place.path("weaver-data").canonicalize().expect("it is there").display().to_string();
    place.write("weaver.toml", &format!("[confine.check]\nread_only = [\"{store}\"]\n"));
    let (detail, _) = verdict(&place.run("doctor --output json"), "confine", "fail");
    assert!(detail.contains("only the server may read"), "{detail}");
    let server = crate::server::Server::start(&place, "serve");
    server.run(&place, "tasks list").succeeded();
    let run = server.stop();
    assert!(run.errors.contains("cannot be confined"), "{}", run.errors);
}

#[test]
fn a_missing_store_is_a_warning_with_the_command_that_creates_it() {
    let place = Place::new();
    let run = place.run("doctor --output json");
    assert_eq!(run.code, Some(0));
    assert!(verdict(&run, "store", "warn").1.contains("weaver store init --store ./weaver-data"));
    assert!(!place.path("weaver-data").exists());
}

#[test]
fn a_store_in_use_is_a_warning_with_its_process() {
    let place = Place::with_store();
    let lock =
        std::fs::File::options().write(true).open(place.path("weaver-data/LOCK")).expect("it is there");
    lock.lock().expect("no other process holds it");
    let pid = place.read("weaver-data/LOCK");
    let run = place.run("doctor --output json");
    assert!(verdict(&run, "lock", "warn").0.contains(&format!("process {}", pid.trim())));
    assert_eq!(run.code, Some(0));
}

#[test]
fn a_missing_file_a_newer_format_and_a_file_in_the_place_of_a_store_fail() {
    let place = Place::with_store();
    place.write("weaver-data/FORMAT", "weaver-embedded 99\n");
    let run = place.run("doctor --output json");
    assert_eq!(run.code, Some(1));
    assert!(verdict(&run, "store", "fail").0.contains("format 99"));

    std::fs::remove_file(place.path("weaver-data/weaver.redb")).expect("it was there");
    let run = place.run("doctor --output json");
    assert!(verdict(&run, "store", "fail").1.contains("backup"));

    place.write("file", "");
    let run = place.run("doctor --output json --store ./file");
    assert!(verdict(&run, "store", "fail").0.contains("./file is a file"));
}

#[test]
fn an_invalid_configuration_is_a_finding_and_does_not_stop_the_checks() {
    let place = Place::new();
    place.write("weaver.toml", "stroe = \"x\"\n");
    let run = place.run("doctor --output json");
    assert_eq!(run.code, Some(1));
    assert!(verdict(&run, "config", "fail").0.contains("did you mean `store`?"));
    verdict(&run, "version", "ok");
}

#[cfg(not(feature = "dynamodb"))]
#[test]
fn a_store_this_build_lacks_fails_with_the_feature_that_brings_it() {
    let run = Place::new().run("doctor --output json --store dynamodb://localhost:1");
    assert!(verdict(&run, "store", "fail").1.contains("`dynamodb`"));
}

#[test]
fn variables_of_other_programs_are_a_warning() {
    let place = Place::with_store();
    let run = Run::of(place.command("doctor --output json").env("WEAVER_SERVICE_HOST", "x"));
    assert!(verdict(&run, "config", "warn").0.contains("WEAVER_SERVICE_HOST"));
    assert_eq!(run.code, Some(0));
}

#[test]
fn the_server_that_has_the_store_open_is_asked_for_records_that_it_cannot_read() {
    let place = Place::with_store();
    let server = crate::server::Server::start(&place, "serve --queues nothing");
    server.run(&place, "enqueue unhandled").succeeded();
    let (detail, _) = verdict(&place.run("doctor --output json"), "records", "ok");
    assert_eq!(detail, "found by the server: no unreadable records");
}
