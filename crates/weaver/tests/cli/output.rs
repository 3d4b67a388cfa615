//! Tables, JSON and colours.

use crate::support::{Place, Run};

#[test]
fn tables_fit_80_columns_and_narrower_ones() {
    let place = Place::new();
    place.write("weaver.toml", &format!("store = \"./{}\"\n", "long-".repeat(30)));
    for columns in [80, 40] {
        let mut command = place.command("config show");
        let table = Run::of(command.env("COLUMNS", columns.to_string())).succeeded();
        assert!(table.contains('…'), "{table}");
        for line in table.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn without_a_terminal_nothing_is_truncated_and_nothing_is_colored() {
    let place = Place::new();
    let long = "long-".repeat(60);
    place.write("weaver.toml", &format!("store = \"./{long}\"\n"));
    let table = place.run("config show").succeeded();
    assert!(table.contains(&long));
    assert!(!table.contains('\x1b'));
}

#[test]
fn color_can_be_forced_and_disabled() {
    let place = Place::new();
    assert!(place.run("doctor --color always").succeeded().contains("\x1b[32mok"));
    assert!(!place.run("doctor --color never").succeeded().contains('\x1b'));
}

#[test]
fn failures_are_json_if_answers_are() {
    let place = Place::new();
    let run = place.run("store check --output json");
    assert_eq!(run.code, Some(3));
    assert_eq!(run.out, "");
    let error: serde_json::Value = serde_json::from_str(&run.errors).expect("it is JSON");
    assert_eq!(error["error"]["code"], "not_found");
    assert_eq!(error["error"]["exit"], 3);
    assert!(
        error["error"]["next"].as_str().is_some_and(|next| next.contains("weaver store init")),
        "{error}"
    );
}

#[test]
fn an_invalid_configuration_is_reported_in_the_format_of_the_flag() {
    let place = Place::new();
    place.write("weaver.toml", "nonsense");
    let run = place.run("config show --output json");
    assert_eq!(run.code, Some(2));
    let error: serde_json::Value = serde_json::from_str(&run.errors).expect("it is JSON");
    assert_eq!(error["error"]["code"], "usage");
}
