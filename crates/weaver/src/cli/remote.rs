//! Talking to a server: where it is, who asks, and what its refusals mean for a command.

use clap::Args;
use weaver_client::{Client, ClientError, ClientOptions, Proxy, SOCKET_SCHEME};

use crate::cli::local::{Places, Registration};
use crate::cli::{Context, Given};
use crate::config::{Config, Origin, keys};
use crate::exit::{Exit, Failure};

/// Which server, and which namespace of it.
#[derive(Debug, Default, Args)]
pub(crate) struct RemoteArgs {
    /// The server's address, or unix:PATH of its socket [default: this user's server on this machine]
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
    /// Where the server is, for people and browsers.
    pub(crate) address: String,
    pub(crate) namespace: String,
    pub(crate) context: &'a Context,
}

impl<'a> Remote<'a> {
    pub(crate) fn new(context: &'a Context) -> Result<Self, Failure> {
        let namespace = context.config.text(keys::NAMESPACE).to_owned();
        let Server { client, address } = connect(&context.config)?;
        Ok(Self { client, address, namespace, context })
    }
}

/// A server that a command talks to.
pub(crate) struct Server {
    pub(crate) client: Client,
    /// Where it is, for people and browsers.
    pub(crate) address: String,
}

/// The server of the settings; else this user's own on this machine, by its socket.
///
/// A token is sent only where the settings that name the token and those that name the server have the same
/// author: a `weaver.toml` that lies in some directory does not get to see a token of the environment.
pub(crate) fn connect(config: &Config) -> Result<Server, Failure> {
    let (address, token) = (config.text(keys::SERVER), config.text(keys::TOKEN));
    if !token.is_empty() {
        check_named(config)?;
        let client = Client::with_options(address, &options(config))?.with_token(token)?;
        return Ok(Server { client, address: address.to_owned() });
    }
    if address.starts_with(SOCKET_SCHEME) {
        return Ok(Server { client: Client::new(address)?, address: address.to_owned() });
    }
    let living = Registration::living(&Places::of_process());
    if address.is_empty() {
        return by_socket(only(&living)?);
    }
    match living.iter().find(|registration| registration.is_at(address)) {
        Some(registration) => by_socket(registration),
        None => Ok(Server {
            client: Client::with_options(address, &options(config))?,
            address: address.to_owned(),
        }),
    }
}

fn by_socket(registration: &Registration) -> Result<Server, Failure> {
    let client = Client::new(&format!("{SOCKET_SCHEME}{}", registration.socket.display()))?;
    Ok(Server { client, address: registration.address.clone() })
}

fn only(living: &[Registration]) -> Result<&Registration, Failure> {
    match living {
        [only] => Ok(only),
        [] => Err(Failure::new(Exit::Busy, "no server of this user runs on this machine")
            .next("start one with `weaver serve`, or name one with --server")),
        several => {
            let mut message = "several servers of this user run on this machine:".to_owned();
            for Registration { address, store, pid, .. } in several {
                message.push_str(&format!("\n  {address}  store {store}  process {pid}"));
            }
            let next = format!("choose one: --server {}, or WEAVER_SERVER", several[0].address);
            Err(Failure::new(Exit::Usage, message).next(next))
        }
    }
}

fn options(config: &Config) -> ClientOptions {
    let proxy = match config.text(keys::PROXY) {
        "" => Proxy::None,
        "environment" => Proxy::Environment,
        url => Proxy::Url(url.to_owned()),
    };
    ClientOptions { proxy, insecure_http: config.text(keys::INSECURE_HTTP) == "true" }
}

/// Whether a token may go to the server of the settings.
fn check_named(config: &Config) -> Result<(), Failure> {
    if config.text(keys::SERVER).is_empty() {
        let message =
            format!("{} has a token, and no server is named to send it to", config.origin(keys::TOKEN));
        return Err(Failure::new(Exit::Usage, message)
            .next("name the server with --server or WEAVER_SERVER; or unset the token to use this user's own server"));
    }
    // A file that has the token may say where it goes, and how.
    if matches!(config.origin(keys::TOKEN), Origin::File { .. }) {
        return Ok(());
    }
    for key in [keys::SERVER, keys::PROXY, keys::INSECURE_HTTP] {
        if let Origin::File { .. } = config.origin(key) {
            let message = format!(
                "the token of {} is not sent: {} sets `{}`, and a file in a directory does not decide where a token of \
                 yours goes",
                config.origin(keys::TOKEN),
                config.origin(key),
                key.name
            );
            let next =
                format!("say it yourself, with {} or {}", key.flag.unwrap_or(key.name), key.variable());
            return Err(Failure::new(Exit::Refused, message).next(next));
        }
    }
    Ok(())
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(problem) => {
                let exit = match problem.status {
                    404 => Exit::NotFound,
                    401 | 403 | 409 | 412 | 428 => Exit::Refused,
                    429 | 502..=504 => Exit::Busy,
                    500.. => Exit::Failed,
                    _ => Exit::Usage,
                };
                // A line of its own would look like ours.
                let line = |text: String| text.replace(['\n', '\r'], " ");
                Self::new(exit, line(problem.detail)).next(line(problem.next))
            }
            ClientError::Unreachable { ref url, .. } => {
                let next =
                    format!("start one with `weaver serve`, or name another with --server (tried {url})");
                Self::new(Exit::Busy, error.to_string()).next(next)
            }
            ClientError::Address { .. } => Self::new(Exit::Usage, error.to_string()),
            ClientError::Insecure { .. } => Self::new(Exit::Refused, error.to_string()),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}
