//! The commands of the guide do what they say.

use crate::support::{Place, Run, shell};

#[test]
fn every_command_of_the_guide_succeeds_in_its_order() {
    let guide = include_str!("../../../../docs/guides/cli.md");
    let commands = commands(guide);
    assert!(commands.len() > 9, "{commands:?}");
    let place = Place::new();
    for command in commands {
        let run = Run::of(&mut shell(&place, command));
        assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
    }
}

#[test]
fn the_guide_lists_every_setting_with_its_variable_flag_and_default() {
    let guide = include_str!("../../../../docs/guides/cli.md");
    let shown = Place::new().run("config show --output json").json();
    for setting in shown["settings"].as_array().expect("settings are listed") {
        let text = |name: &str| match setting[name].as_str() {
            None | Some("") => String::new(),
            Some(text) => format!("`{text}` "),
        };
        let about = setting["about"].as_str().expect("it says what it is about");
        let row = format!(
            "| {}| {}| {}| {}| {about} |",
            text("key"),
            text("variable"),
            text("flag"),
            text("default")
        );
        assert!(guide.contains(&row), "docs/guides/cli.md lacks the row\n{row}");
    }
}

/// The commands of a page: lines that begin with `$ ` in its `console` blocks.
pub(crate) fn commands(page: &str) -> Vec<&str> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")).collect()
}
