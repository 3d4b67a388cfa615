//! `weaver schedules`, with and without a server; `weaver settings`.

use crate::server::Server;
use crate::support::{Place, Run};

fn next(place: &Place, arguments: &[&str]) -> Run {
    let mut command = place.command("schedules next");
    Run::of(command.args(arguments).env("TZ", "America/New_York"))
}

#[test]
fn upcoming_runs_are_shown_in_the_zone_and_in_local_time_with_dst_notes() {
    let place = Place::new();
    let arguments =
        ["--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-28T12:00:00Z", "--count", "2"];
    let table = next(&place, &arguments).succeeded();
    assert!(table.contains("Europe/Berlin") && table.contains("LOCAL"), "{table}");
    assert!(table.contains("2026-03-29 03:00:00 +02:00"), "{table}");
    assert!(table.contains("2026-03-28 21:00:00 -04:00"), "{table}");
    assert!(table.contains("02:30 does not exist on 2026-03-29: moved to the end of the gap"), "{table}");
    assert_eq!(table.lines().count(), 3, "{table}");
}

#[test]
fn in_json_runs_are_instants() {
    let place = Place::new();
    let arguments = ["--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--fold", "both", "--output", "json"];
    let from = ["--from", "2026-10-24T12:00:00Z", "--count", "2"];
    let answer = next(&place, &[&arguments[..], &from[..]].concat()).succeeded();
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("it is JSON");
    assert_eq!(answer["runs"][0]["at"], "2026-10-25T00:30:00.000000Z");
    assert_eq!(answer["runs"][1]["at"], "2026-10-25T01:30:00.000000Z");
    assert_eq!(answer["runs"][1]["notes"][0], "02:30 happens twice on 2026-10-25: this is the second");
}

#[test]
fn a_bad_expression_is_pointed_at_with_a_suggestion() {
    let place = Place::new();
    let run = next(&place, &["--cron", "0 25 * * *", "--tz", "UTC"]);
    assert_eq!(run.code, Some(2));
    assert!(run.errors.contains("hour: 25 is not between 0 and 23"), "{}", run.errors);
    assert!(run.errors.contains("0 25 * * *\n  ^^"), "{}", run.errors);
    let run = next(&place, &["--cron", "0 2 * * *", "--tz", "Berlin"]);
    assert!(run.errors.contains("did you mean `Europe/Berlin`?"), "{}", run.errors);
    let run = next(&place, &["--cron", "0 2 * * *"]);
    assert!(run.errors.contains("give one, like Europe/Berlin"), "{}", run.errors);
}

fn add(server: &Server, place: &Place, more: &[&str]) -> Run {
    let mut command = place.command("schedules add nightly mail");
    command.args(["{\"to\": \"ada\"}", "--cron", "daily at 02:30", "--tz", "Europe/Berlin"]).args(more);
    Run::of(command.env("WEAVER_SERVER", &server.address))
}

#[test]
fn a_schedule_of_a_server_is_added_shown_edited_run_and_removed() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    let flags =
        ["--priority", "2", "--backoff", "fixed:30s", "--misfire", "skip-after:5m", "--label", "team=ops"];
    let added = add(&server, &place, &flags).succeeded();
    assert!(added.starts_with("Schedule nightly is added, version "), "{added}");
    add(&server, &place, &[]).failed(6, &["nightly", "edit it, or choose another name"]);
    let list = server.run(&place, "schedules list").succeeded();
    assert!(list.contains("daily at 02:30 in Europe/Berlin"), "{list}");
    let shown = server.run(&place, "schedules show nightly --output json").json();
    assert_eq!(shown["spec"]["misfire"], serde_json::json!({"kind": "skip_after", "seconds": 300}));
    assert_eq!(shown["spec"]["task"]["retry"], serde_json::json!({"kind": "fixed", "delay_ms": 30_000}));
    assert_eq!(shown["spec"]["task"]["labels"]["team"], "ops");
    let edited = server.run(&place, "schedules edit nightly --concurrency forbid").succeeded();
    assert!(edited.starts_with("Schedule nightly is changed, version "), "{edited}");
    let stale = format!("schedules edit nightly --concurrency allow --if-version {}", shown["version"]);
    server.run(&place, &stale).failed(6, &[&format!("not at {}", shown["version"]), "read it again"]);
    let next = server.run(&place, "schedules next nightly --from 2026-03-28T12:00:00Z --count 1").succeeded();
    assert!(next.contains("02:30 does not exist on 2026-03-29"), "{next}");
    let task = server.run(&place, "schedules run-now nightly").succeeded();
    let task = server.run(&place, &format!("tasks show {} --output json", task.trim())).json();
    assert_eq!((&task["task_type"], &task["priority"]), (&"mail".into(), &2.into()));
    server.run(&place, "schedules run-now nightly").failed(6, &["forbids concurrent runs"]);
    let disabled = server.run(&place, "schedules disable nightly").succeeded();
    assert!(disabled.contains("disabled"), "{disabled}");
    let text = server.run(&place, "schedules show nightly").succeeded();
    assert!(text.contains("upcoming runs, once enabled"), "{text}");
    assert!(server.run(&place, "schedules enable nightly").succeeded().contains("next run at"));
    server.run(&place, "schedules remove nightly").succeeded();
    server.run(&place, "schedules show nightly").failed(3, &["no schedule `nightly`"]);
}

#[test]
fn a_schedule_goes_through_an_editor_and_through_files() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    add(&server, &place, &["--disabled"]).succeeded();
    let edit = |editor: &str| {
        let mut command = place.command("schedules edit nightly");
        Run::of(command.env("WEAVER_SERVER", &server.address).env("EDITOR", editor).env_remove("VISUAL"))
    };
    edit("").failed(2, &["nothing to change", "EDITOR"]);
    assert_eq!(edit("true").succeeded(), "Nothing changed.\n");
    edit("false").failed(1, &["nothing was changed"]);
    edit("echo nonsense >").failed(2, &["is not a schedule"]);
    let edited = edit("sed -i 's/daily at 02:30/daily at 03:15/'").succeeded();
    assert!(edited.contains("it is disabled"), "{edited}");
    let shown = server.run(&place, "schedules show nightly --output json").json();
    assert_eq!(shown["spec"]["trigger"]["schedule"], "daily at 03:15");
    place.write("copy.json", &shown["spec"].to_string());
    server.run(&place, "schedules add copy --file copy.json").succeeded();
    let copy = server.run(&place, "schedules show copy --output json").json();
    assert_eq!(copy["spec"], shown["spec"]);
}

#[test]
fn an_invalid_schedule_is_refused_with_the_next_step() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    let run = |arguments: &[&str]| {
        let mut command = place.command("schedules add s mail");
        Run::of(command.args(arguments).env("WEAVER_SERVER", &server.address))
    };
    run(&[]).failed(2, &["the schedule has no trigger", "--cron"]);
    run(&["--cron", "0 25 * * *", "--tz", "UTC"]).failed(2, &["25 is not between 0 and 23"]);
    run(&["--cron", "0 2 * * *", "--tz", "Berlin"]).failed(2, &["did you mean `Europe/Berlin`?"]);
    run(&["--cron", "every 5m", "--misfire", "sometimes"]).failed(2, &["run-all:10"]);
    run(&["--event", "e", "--tz", "UTC"]).failed(2, &["--event"]);
    server.run(&place, "schedules list").succeeded();
}

#[test]
fn settings_are_listed_set_and_reset() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    let list = server.run(&place, "settings list").succeeded();
    assert!(list.contains("scheduler.paused") && list.contains("false (default)"), "{list}");
    let set = server.run(&place, "settings set scheduler.paused true").succeeded();
    assert_eq!(set, "scheduler.paused is true.\n");
    server.run(&place, "settings set scheduler.paused 3").failed(2, &["give true or false"]);
    server.run(&place, "settings set scheduler.pausd true").failed(3, &["did you mean `scheduler.paused`?"]);
    let reset = server.run(&place, "settings reset scheduler.paused").succeeded();
    assert_eq!(reset, "scheduler.paused is false (default).\n");
}
