//! `weaver token`: a short-lived admin token for curl and scripts on this machine.

use clap::Args;
use serde_json::json;
use std::time::Duration;
use weaver_api as wire;

use crate::cli::remote::{Remote, RemoteArgs};
use crate::cli::tokens::span;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver token\n  weaver token --expires-in 10m\n  \
    curl -H \"Authorization: Bearer $(weaver token)\" http://127.0.0.1:7117/api/v1/tasks\n\n\
    Each call creates a new admin token with full access until it expires. For tokens with fewer rights or a longer lifetime:\n\
    `weaver tokens create`.")]
pub(crate) struct TokenArgs {
    /// Lifetime: 10m, 12h, 30d
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "1h")]
    expires_in: Duration,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &TokenArgs) -> Result<Exit, Failure> {
    let created = remote
        .client
        .create_token(&wire::NewToken {
            name: "weaver-token".to_owned(),
            role: wire::Role::Admin,
            namespaces: None,
            may_exec: true,
            expires_in_ms: Some(u64::try_from(args.expires_in.as_millis()).unwrap_or(u64::MAX)),
        })
        .await?;
    let answer = json!({"token": created.token, "expires_at": created.info.expires_at});
    remote.context.output.answer(&answer, || format!("{}\n", created.token))?;
    Ok(Exit::Done)
}
