//! Notifications of merge queues, from the operator's settings. Invalid settings are refused at the start.

use weaver_merge::notify::Notifications;

use crate::config::keys::Key;
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};

/// Placeholders that a command must have in its arguments.
const VALUES: [&str; 3] = ["{kind}", "{queue}", "{message}"];

pub(super) fn notifications(config: &Config) -> Result<Notifications, Failure> {
    let given = |key: &'static Key| Some(config.text(key)).filter(|text| !text.is_empty()).map(str::to_owned);
    let (webhook, command) = (given(keys::MERGE_WEBHOOK), given(keys::MERGE_COMMAND));
    if let Some(text) = &webhook {
        check_url(text).map_err(|problem| refused(config, keys::MERGE_WEBHOOK, &problem))?;
    }
    if let Some(name) = &command {
        check_command(config, name).map_err(|problem| refused(config, keys::MERGE_COMMAND, &problem))?;
    }
    Ok(Notifications { webhook, command, templates: config.templates.0.clone() })
}

fn refused(config: &Config, key: &'static Key, problem: &str) -> Failure {
    let message = format!("{}: {}: {problem}", config.origin(key), key.name);
    Failure::new(Exit::Usage, message).next("see docs/guides/merge-queue.md")
}

/// The URL itself is not repeated: it may hold a secret.
fn check_url(text: &str) -> Result<(), String> {
    let url = url::Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    match url.scheme() {
        "http" | "https" => Ok(()),
        other => Err(format!("the scheme `{other}` is not http or https")),
    }
}

/// A task with a value that its command has no placeholder for is refused when it runs, which would go
/// unnoticed.
fn check_command(config: &Config, name: &str) -> Result<(), String> {
    let exec = config.handlers.0.exec.as_ref();
    let Some(command) = exec.and_then(|exec| exec.commands.get(name)) else {
        return Err(format!("command `{name}` is not in [handlers.exec.commands]"));
    };
    match VALUES.iter().find(|value| !command.args.iter().any(|argument| argument.contains(*value))) {
        Some(value) => Err(format!("command `{name}` has no {value} placeholder: add it to its `args`")),
        None => Ok(()),
    }
}
