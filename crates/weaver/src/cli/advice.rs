//! Every command that a message of Weaver advises exists, with the flags it is advised with.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use super::Cli;

/// Texts between backquotes that begin with `weaver `, of every source file.
fn advised() -> Vec<(PathBuf, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is in a workspace").to_owned();
    let mut found = Vec::new();
    for krate in std::fs::read_dir(crates).expect("crates").flatten() {
        collect(&krate.path().join("src"), &mut found);
    }
    found
}

fn collect(place: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "sql") {
            let text = std::fs::read_to_string(&path).expect("sources are text");
            for line in text.lines() {
                let quoted = line.split('`').skip(1).step_by(2);
                let commands = quoted.filter(|text| text.starts_with("weaver "));
                found.extend(commands.map(|command| (path.clone(), command.to_owned())));
            }
        }
    }
}

/// Why a command is none, if it is none. What stands for something else (`ID`, `{id}`, `…`) is not looked at.
fn fault(command: &str) -> Option<String> {
    let cli = Cli::command();
    let (mut at, mut is_path) = (&cli, true);
    for word in command.split_whitespace().skip(1) {
        if let Some(flag) = word.strip_prefix("--") {
            let flag = flag.split(['=', '…', '{']).next().unwrap_or_default();
            let is_known = |command: &clap::Command| {
                command.get_arguments().any(|argument| argument.get_long() == Some(flag))
            };
            if !flag.is_empty() && !is_known(at) && !is_known(&cli) && flag != "help" && flag != "version" {
                return Some(format!("no flag --{flag}"));
            }
            is_path = false;
            continue;
        }
        let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        if is_path && is_word && at.has_subcommands() {
            match at.find_subcommand(word) {
                Some(inner) => at = inner,
                None => return Some(format!("no command `{word}`")),
            }
        } else {
            is_path = false;
        }
    }
    None
}

#[test]
fn every_command_that_a_message_advises_exists() {
    let advised = advised();
    assert!(advised.len() > 50, "{}", advised.len());
    let wrong: Vec<String> = advised
        .iter()
        .filter_map(|(path, command)| Some(format!("{}: `{command}`: {}", path.display(), fault(command)?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    assert!(fault("weaver tasks remove 7").is_some());
    assert!(fault("weaver tasks purge 7 --force").is_some());
    assert_eq!(fault("weaver tasks purge {} --yes"), None);
}

#[test]
fn what_is_advised_about_unreadable_records_parses_as_it_is_written() {
    for command in [
        "weaver store check",
        "weaver store check --store postgres://db.example.org/jobs",
        "weaver tasks quarantine --namespace other",
        "weaver tasks purge 17",
        "weaver tasks purge 17 --yes --namespace other",
        "weaver queues limit mail none",
        "weaver schedules remove nightly",
        "weaver store export",
    ] {
        let parsed = Cli::try_parse_from(command.split(' '));
        assert!(parsed.is_ok(), "{command}: {parsed:?}");
    }
}
