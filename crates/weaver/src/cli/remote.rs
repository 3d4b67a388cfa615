//! Talking to a server: where it is, who asks, and what its refusals mean for a command.

use clap::Args;
use weaver_client::{Client, ClientError};

use crate::cli::{Context, Given, identity};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};

/// Which server, and which namespace of it.
#[derive(Debug, Default, Args)]
pub(crate) struct RemoteArgs {
    /// The server's address [default: http://127.0.0.1:7117]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The namespace [default: default]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
}

impl RemoteArgs {
    pub(crate) fn settings(&self) -> [Given<'_>; 2] {
        [(keys::SERVER, self.server.as_ref()), (keys::NAMESPACE, self.namespace.as_ref())]
    }
}

/// A server, and the namespace a command is about.
pub(crate) struct Remote<'a> {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) context: &'a Context,
}

impl<'a> Remote<'a> {
    pub(crate) fn new(context: &'a Context) -> Result<Self, Failure> {
        let namespace = context.config.text(keys::NAMESPACE).to_owned();
        Ok(Self { client: connect(&context.config)?, namespace, context })
    }
}

/// A client of the configured server, with the token it is to be shown.
pub(crate) fn connect(config: &Config) -> Result<Client, Failure> {
    let address = config.text(keys::SERVER);
    let client = Client::new(address)?;
    Ok(match identity::token_for(address, config)? {
        Some(token) => client.with_token(token),
        None => client,
    })
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(problem) => {
                let exit = match problem.status {
                    404 => Exit::NotFound,
                    401 | 403 | 409 => Exit::Refused,
                    429 | 502..=504 => Exit::Busy,
                    500.. => Exit::Failed,
                    _ => Exit::Usage,
                };
                Self::new(exit, problem.detail).next(problem.next)
            }
            ClientError::Unreachable { ref url, .. } => {
                let next =
                    format!("start one with `weaver serve`, or name another with --server (tried {url})");
                Self::new(Exit::Busy, error.to_string()).next(next)
            }
            ClientError::Address { .. } => Self::new(Exit::Usage, error.to_string()),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}
