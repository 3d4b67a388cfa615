//! `weaver schedules next`, without a server.

use crate::support::{Place, Run};

fn next(place: &Place, arguments: &[&str]) -> Run {
    let mut command = place.command("schedules next");
    Run::of(command.args(arguments).env("TZ", "America/New_York"))
}

#[test]
fn the_next_fires_are_shown_in_the_zone_and_in_local_time_with_what_the_clocks_do() {
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
fn in_json_fires_are_instants() {
    let place = Place::new();
    let arguments =
        ["--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--overlap", "both", "--output", "json"];
    let from = ["--from", "2026-10-24T12:00:00Z", "--count", "2"];
    let answer = next(&place, &[&arguments[..], &from[..]].concat()).succeeded();
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("it is JSON");
    assert_eq!(answer["fires"][0]["at"], "2026-10-25T00:30:00.000000Z");
    assert_eq!(answer["fires"][1]["at"], "2026-10-25T01:30:00.000000Z");
    assert_eq!(answer["fires"][1]["notes"][0], "02:30 happens twice on 2026-10-25: this is the second");
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
