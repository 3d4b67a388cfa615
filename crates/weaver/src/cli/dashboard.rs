//! `weaver dashboard`: creates a one-time login link and opens it in a browser.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver dashboard\n  weaver dashboard --print\n\n\
    The link is valid for an hour and for one login, as the owner of the token that this command uses.")]
pub(crate) struct DashboardArgs {
    /// Only print the link, even to a file or a pipe
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &DashboardArgs) -> Result<Exit, Failure> {
    if !args.print && !std::io::stdout().is_terminal() {
        let message = "a login link is a secret, and standard output is not a terminal";
        return Err(Failure::new(Exit::Refused, message).next("run it on a terminal, or pass --print"));
    }
    let link = remote.client.login_link().await?;
    let address = link.address.as_deref().unwrap_or(&remote.address).trim_end_matches('/');
    let url = format!("{address}{}", link.path);
    let answer = json!({"url": url, "expires_at": link.expires_at});
    remote.context.output.answer(&answer, || format!("{url}\n"))?;
    if !args.print && !remote.context.output.is_json {
        open(&url);
    }
    Ok(Exit::Done)
}

/// Opens a browser if there is a display. The link is printed anyway, so a missing browser is not an error.
fn open(url: &str) {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if has_screen || cfg!(target_os = "macos") {
        // Its output is not needed, and it may outlive this command.
        let _ = Command::new(opener)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}
