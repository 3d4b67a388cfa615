//! `weaver settings …`: runtime settings of an installation, kept in its store.

use clap::{Args, Subcommand};
use weaver_api::{PutSetting, Setting};

use crate::cli::Context;
use crate::cli::enqueue::read_payload;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::Table;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver settings list\n  weaver settings set scheduler.paused true\n\n\
    Runtime settings apply to every node at once, without a restart. The configuration that a command or server reads at\n\
    its start is shown by `weaver config show`.")]
pub(crate) enum Command {
    /// List settings with their value, allowed values and description
    List(ListArgs),
    /// Change a setting
    Set(SetArgs),
    /// Reset a setting to its default
    Reset(ResetArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver settings list\n  weaver settings list --output json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver settings set scheduler.paused true\n  weaver settings set events.retention_hours 24"
)]
pub(crate) struct SetArgs {
    /// Key of the setting
    key: String,
    /// New value, as JSON
    value: String,
    /// Only if the setting is still at this version; 0: never set [default: any version]
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver settings reset scheduler.paused")]
pub(crate) struct ResetArgs {
    /// Key of the setting
    key: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl Command {
    pub(crate) fn remote(&self) -> &RemoteArgs {
        match self {
            Self::List(args) => &args.remote,
            Self::Set(args) => &args.remote,
            Self::Reset(args) => &args.remote,
        }
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit, Failure> {
    let remote = Remote::new(context)?;
    match command {
        Command::List(_) => list(&remote).await,
        Command::Set(args) => {
            let put = PutSetting { value: read_payload(&args.value)?, expected_version: args.if_version };
            report(&remote, &remote.client.put_setting(&args.key, &put).await?)
        }
        Command::Reset(args) => report(&remote, &remote.client.reset_setting(&args.key).await?),
    }
}

async fn list(remote: &Remote<'_>) -> Result<Exit, Failure> {
    let settings = remote.client.settings().await?;
    let output = &remote.context.output;
    output.answer(&settings, || {
        let mut table = Table::new(["SETTING", "VALUE", "ALLOWED", "DESCRIPTION"]);
        for setting in &settings.items {
            let value = if setting.version == 0 { " (default)" } else { "" };
            table.row([
                setting.key.clone(),
                format!("{}{value}", setting.value.as_str()),
                setting.allowed.clone(),
                setting.description.clone(),
            ]);
        }
        output.render(&table)
    })?;
    Ok(Exit::Done)
}

fn report(remote: &Remote<'_>, setting: &Setting) -> Result<Exit, Failure> {
    remote.context.output.answer(setting, || {
        let default = if setting.version == 0 { " (default)" } else { "" };
        format!("{} is {}{default}.\n", setting.key, setting.value.as_str())
    })?;
    Ok(Exit::Done)
}
