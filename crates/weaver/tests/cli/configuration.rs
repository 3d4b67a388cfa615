//! Where settings come from, and what becomes of those that are wrong.

use serde_json::Value;

use crate::support::{Place, Run};

/// The value of a setting, and where it came from.
fn setting(shown: &Value, key: &str) -> (String, String, String) {
    let settings = shown["settings"].as_array().expect("settings are listed");
    let found = settings.iter().find(|setting| setting["key"] == key).expect("the setting is listed");
    let text = |name: &str| found[name].as_str().expect("it is a text").to_owned();
    (text("value"), text("from"), text("where"))
}

fn is(found: &(String, String, String), value: &str, from: &str, place: &str) -> bool {
    (found.0.as_str(), found.1.as_str(), found.2.as_str()) == (value, from, place)
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let place = Place::new();
    let shown = place.run("config show --output json").json();
    assert!(is(&setting(&shown, "store"), "./weaver-data", "default", "default"), "{shown}");
    assert!(shown["file"].is_null());

    place.write("weaver.toml", "# mine\nstore = \"./of-file\"\n");
    let shown = place.run("config show --output json").json();
    assert!(is(&setting(&shown, "store"), "./of-file", "file", "weaver.toml:2"), "{shown}");
    assert_eq!(shown["file"], "weaver.toml");

    let variable =
        |arguments: &str| Run::of(place.command(arguments).env("WEAVER_STORE", "./of-variable")).json();
    let shown = variable("config show --output json");
    assert!(is(&setting(&shown, "store"), "./of-variable", "environment", "WEAVER_STORE"), "{shown}");

    let shown = variable("config show --output json --store ./of-flag");
    assert!(is(&setting(&shown, "store"), "./of-flag", "flag", "--store"), "{shown}");
}

#[test]
fn the_setting_that_is_shown_is_the_one_that_is_used() {
    let place = Place::new();
    place.write("weaver.toml", "store = \"./of-file\"\n");
    place.run("store init").succeeded();
    assert!(place.path("of-file/weaver.redb").exists());
    Run::of(place.command("store init").env("WEAVER_STORE", "./of-variable")).succeeded();
    assert!(place.path("of-variable/weaver.redb").exists());
}

#[test]
fn another_file_is_named_by_flag_or_variable_and_its_paths_count_from_it() {
    let place = Place::new();
    std::fs::create_dir(place.path("conf")).expect("the directory is made");
    place.write("conf/other.toml", "store = \"./data\"\n");
    let shown = place.run("--config conf/other.toml config show --output json").json();
    assert!(is(&setting(&shown, "store"), "conf/data", "file", "conf/other.toml:1"), "{shown}");
    let shown =
        Run::of(place.command("config show --output json").env("WEAVER_CONFIG", "conf/other.toml")).json();
    assert_eq!(setting(&shown, "store").0, "conf/data");
    place.run("--config conf/none.toml config show").failed(3, &["conf/none.toml", "next: check the path"]);
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_setting() {
    let place = Place::new();
    place.write("weaver.toml", "store = \"./a\"\nretenton = \"3d\"\n");
    place.run("config show").failed(2, &["weaver.toml:2", "did you mean `retention`?", "next: "]);
    place.run("store init").failed(2, &["weaver.toml:2"]);
    assert!(!place.path("a").exists());
}

#[test]
fn a_value_that_is_wrong_is_refused_with_its_place_and_what_would_be_right() {
    let place = Place::new();
    place.write("weaver.toml", "retention = \"long\"\n");
    place.run("config show").failed(2, &["weaver.toml:1", "`long`", "12h"]);
    place.write("weaver.toml", "");
    let run = Run::of(place.command("config show").env("WEAVER_OUTPUT", "xml"));
    run.failed(2, &["WEAVER_OUTPUT", "table, json"]);
}

#[test]
fn a_mistyped_variable_is_refused_and_one_of_another_program_is_reported() {
    let place = Place::new();
    let run = Run::of(place.command("config show").env("WEAVER_STROE", "x"));
    run.failed(2, &["WEAVER_STROE", "did you mean WEAVER_STORE?"]);
    let shown = Run::of(place.command("config show --output json").env("WEAVER_SERVICE_HOST", "x")).json();
    assert_eq!(shown["unknown_variables"][0], "WEAVER_SERVICE_HOST");
}
