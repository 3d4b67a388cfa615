//! `weaver merge key …`: the signing key of this node. Always on this machine: private keys are never sent.

use clap::{Args, Subcommand};
use serde_json::json;
use weaver_merge::engine::EngineError;
use weaver_merge::keys::public_file;

use super::side;
use crate::cli::{Context, StoreArgs};
use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver merge key show > node1.pub\n  weaver merge key rotate")]
pub(crate) enum Command {
    /// Print the public keys of this node, the current one last
    #[command(after_help = "Examples:\n  weaver merge key show > node1.pub")]
    Show(KeyArgs),
    /// Create a new signing key; signatures of older keys stay valid
    #[command(
        after_help = "Examples:\n  weaver merge key rotate\n\nA running server uses the new key at once."
    )]
    Rotate(KeyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    store: StoreArgs,
}

impl Command {
    pub(super) fn store(&self) -> &StoreArgs {
        match self {
            Self::Show(args) | Self::Rotate(args) => &args.store,
        }
    }
}

pub(super) fn run(command: &Command, context: &Context) -> Result<Exit, Failure> {
    let (file, keyring) = (side::key_file(&context.config), side::keyring(&context.config));
    match command {
        // Signing creates the key if there is none.
        Command::Show(_) => drop(keyring.sign(b"").map_err(EngineError::from)?),
        Command::Rotate(_) => {
            keyring.rotate().map_err(EngineError::from)?;
        }
    }
    let keys = weaver_merge::keys::read_public_keys(&public_file(&file)).map_err(EngineError::from)?;
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let answer = json!({ "file": file, "keys": keys });
    context.output.answer(&answer, || keys.iter().map(|key| format!("{key}\n")).collect())?;
    Ok(Exit::Done)
}
