//! Who is told about merge queues, by the operator's settings. What cannot work is refused before anything
//! starts.

use weaver_merge::notify::Notifications;

use crate::config::keys::Key;
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};

/// What a command is given, each as one of its arguments.
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
    Failure::new(Exit::Usage, message).next("docs/guides/merge-queue.md shows it")
}

/// The text itself is not repeated: it may have a secret in it.
fn check_url(text: &str) -> Result<(), String> {
    let url = url::Url::parse(text).map_err(|error| format!("it is no URL: {error}"))?;
    match url.scheme() {
        "http" | "https" => Ok(()),
        other => Err(format!("`{other}` is not http or https")),
    }
}

/// A task that gives its command a value that is not asked for is refused when it runs, which nobody would
/// notice.
fn check_command(config: &Config, name: &str) -> Result<(), String> {
    let exec = config.handlers.0.exec.as_ref();
    let Some(command) = exec.and_then(|exec| exec.commands.get(name)) else {
        return Err(format!("there is no command `{name}` in [handlers.exec.commands]"));
    };
    match VALUES.iter().find(|value| !command.args.iter().any(|argument| argument.contains(*value))) {
        Some(value) => Err(format!("the command `{name}` takes no {value}: put it into one of its `args`")),
        None => Ok(()),
    }
}
