//! `weaver completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver completions bash > ~/.local/share/bash-completion/completions/weaver\n  \
    weaver completions zsh > ~/.zfunc/_weaver\n  weaver completions fish > ~/.config/fish/completions/weaver.fish"
)]
pub(crate) struct CompletionsArgs {
    /// Shell to print completions for
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    // In memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weaver", &mut script);
    crate::output::print(&script)?;
    Ok(Exit::Done)
}
