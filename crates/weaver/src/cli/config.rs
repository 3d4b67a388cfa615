//! `weaver config show`: every setting with its value and origin.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::{Context, StoreArgs};
use crate::exit::{Exit, Failure};
use crate::output::Table;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver config show")]
pub(crate) enum Command {
    /// Show every setting with its value and where it was set
    Show(ShowArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver config show\n  WEAVER_STORE=./elsewhere weaver config show --output json"
)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    store: StoreArgs,
}

impl Command {
    pub(crate) fn store(&self) -> &StoreArgs {
        let Self::Show(args) = self;
        &args.store
    }
}

pub(crate) fn run(command: &Command, context: &Context) -> Result<Exit, Failure> {
    let Command::Show(_) = command;
    let config = &context.config;
    let settings = config.settings.iter().map(|setting| {
        json!({
            "key": setting.key.name,
            "value": setting.shown(),
            "from": setting.origin.kind(),
            "where": setting.origin.to_string(),
            "variable": setting.key.variable(),
            "flag": setting.key.flag,
            "default": setting.key.default,
            "about": setting.key.about,
        })
    });
    let settings: Vec<_> = settings.collect();
    let (policy, origin) = &config.handlers;
    let handlers = json!({"value": policy, "from": origin.kind(), "where": origin.to_string()});
    let file = config.file.as_ref().map(|path| path.display().to_string());
    let (templates, templates_origin) = &config.templates;
    let merge_templates =
        json!({"value": templates, "from": templates_origin.kind(), "where": templates_origin.to_string()});
    let (rules, rules_origin) = &config.confine;
    let confine = json!({"value": rules, "from": rules_origin.kind(), "where": rules_origin.to_string()});
    let answer = json!({
        "file": file, "settings": settings, "handlers": handlers, "confine": confine, "merge_templates": merge_templates,
        "unknown_variables": config.unknown_variables,
    });
    context.output.answer(&answer, || {
        let mut table = Table::new(["SETTING", "VALUE", "SOURCE", "DESCRIPTION"]);
        for setting in &config.settings {
            let about = setting.key.about.to_owned();
            table.row([
                setting.key.name.to_owned(),
                setting.shown().into_owned(),
                setting.origin.to_string(),
                about,
            ]);
        }
        let parts = [
            ("handlers.http", json!(policy.http), origin, "policy of `http` tasks"),
            ("handlers.exec", json!(policy.exec), origin, "policy of `exec` tasks; null: disabled"),
            ("confine", json!(rules), rules_origin, "confinement of commands, and rules for merge checks"),
            (
                "merge.templates",
                json!(templates),
                templates_origin,
                "templates for merge queue notifications",
            ),
        ];
        for (name, value, origin, about) in parts {
            table.row([name.to_owned(), value.to_string(), origin.to_string(), about.to_owned()]);
        }
        let mut text = context.output.render(&table);
        for name in &config.unknown_variables {
            text.push_str(&format!("\nThe variable {name} is set but is not a setting.\n"));
        }
        text
    })?;
    Ok(Exit::Done)
}
