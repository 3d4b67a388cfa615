//! Help, completions, and what happens to a slip.

use crate::support::Place;

#[test]
fn help_shows_the_commands_examples_and_exit_codes() {
    let help = Place::new().run("--help").succeeded();
    for words in
        ["store", "doctor", "config", "completions", "Examples:", "Exit codes:", "  5  a store is damaged"]
    {
        assert!(help.contains(words), "no `{words}` in\n{help}");
    }
}

#[test]
fn help_of_a_command_inside_another_shows_its_own_examples() {
    let help = Place::new().run("store backup --help").succeeded();
    assert!(help.contains("weaver store backup ./backup-1"), "{help}");
    assert!(help.contains("--store <URL>"), "{help}");
}

#[test]
fn a_mistyped_command_flag_or_choice_is_answered_with_the_one_that_was_meant() {
    let place = Place::new();
    place.run("stor check").failed(2, &["stor", "similar", "'store'"]);
    place.run("store chekc").failed(2, &["'check'"]);
    place.run("store check --stroe x").failed(2, &["'--store'"]);
    place.run("doctor --output jsno").failed(2, &["'json'"]);
}

#[test]
fn without_a_command_the_help_is_shown_and_nothing_is_done() {
    Place::new().run("").failed(2, &["Usage: weaver"]);
}

#[test]
fn completions_are_printed_for_each_shell_also_beside_a_broken_configuration() {
    let place = Place::new();
    place.write("weaver.toml", "nonsense");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&format!("completions {shell}")).succeeded();
        assert!(script.contains("weaver") && script.contains("doctor"), "{shell}");
    }
    place.run("completions csh").failed(2, &["csh", "possible values"]);
}

#[test]
fn the_version_is_printed() {
    assert_eq!(Place::new().run("--version").succeeded(), format!("weaver {}\n", env!("CARGO_PKG_VERSION")));
}
