//! `weaver dashboard`: a link that logs a browser in once, and the browser.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver dashboard\n  weaver dashboard --print\n\n\
    The link is good for an hour, and for one browser; it is logged in as the owner of the token that this command uses.")]
pub(crate) struct DashboardArgs {
    /// Only print the link, also to a file or a pipe
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &DashboardArgs) -> Result<Exit, Failure> {
    if !args.print && !std::io::stdout().is_terminal() {
        let message =
            "a login link is a secret, and the output is no terminal: it would end up in a file or a log";
        return Err(Failure::new(Exit::Refused, message)
            .next("run it on a terminal, or say --print if that is meant"));
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

/// Opens a browser where there is one. The link is printed all the same, so a machine without one is no
/// failure.
fn open(url: &str) {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if has_screen || cfg!(target_os = "macos") {
        // Its own output is of no use here, and it may outlive this command.
        let _ = Command::new(opener)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}
