//! The server a command talks to: its address, credentials, and the exit codes of its errors.

use clap::Args;
use weaver_client::{Client, ClientError, ClientOptions, Proxy, SOCKET_SCHEME};

use crate::cli::local::{Places, Registration};
use crate::cli::{Context, Given};
use crate::config::{Config, Origin, keys};
use crate::exit::{Exit, Failure};

#[derive(Debug, Default, Args)]
pub(crate) struct RemoteArgs {
    /// Server URL, or unix:PATH of its socket [default: this user's server on this machine]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Namespace [default: default]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
}

impl RemoteArgs {
    pub(crate) fn settings(&self) -> [Given<'_>; 2] {
        [(keys::SERVER, self.server.as_ref()), (keys::NAMESPACE, self.namespace.as_ref())]
    }
}

pub(crate) struct Remote<'a> {
    pub(crate) client: Client,
    /// The server's URL, for messages and browsers.
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

pub(crate) struct Server {
    pub(crate) client: Client,
    /// Its URL, for messages and browsers.
    pub(crate) address: String,
}

/// The configured server; else this user's own on this machine, through its socket.
///
/// A token is sent only if the token and the server are configured by the same author: a `weaver.toml` in
/// some directory must not redirect a token of the environment.
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
    let alive = Registration::alive(&Places::of_process());
    if address.is_empty() {
        return by_socket(only(&alive)?);
    }
    match alive.iter().find(|registration| registration.is_at(address)) {
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

fn only(alive: &[Registration]) -> Result<&Registration, Failure> {
    match alive {
        [only] => Ok(only),
        [] => Err(Failure::new(Exit::Busy, "no server of this user is running on this machine")
            .next("start one with `weaver serve`, or name one with --server")),
        several => {
            let mut message = "several servers of this user are running on this machine:".to_owned();
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

/// Refuses to send a token to a server that only a file names.
fn check_named(config: &Config) -> Result<(), Failure> {
    if config.text(keys::SERVER).is_empty() {
        let message =
            format!("{} sets a token, but no server is named to send it to", config.origin(keys::TOKEN));
        return Err(Failure::new(Exit::Usage, message)
            .next("name the server with --server or WEAVER_SERVER; or unset the token to use this user's own server"));
    }
    // A file that has the token may also say where it goes.
    if matches!(config.origin(keys::TOKEN), Origin::File { .. }) {
        return Ok(());
    }
    for key in [keys::SERVER, keys::PROXY, keys::INSECURE_HTTP] {
        if let Origin::File { .. } = config.origin(key) {
            let message = format!(
                "the token of {} is not sent: {} sets `{}`, and a file must not redirect a token from the environment",
                config.origin(keys::TOKEN),
                config.origin(key),
                key.name
            );
            let next = format!("set it with {} or {}", key.flag.unwrap_or(key.name), key.variable());
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
                // A newline could fake a line of our own output.
                let line = |text: String| text.replace(['\n', '\r'], " ");
                Self::new(exit, line(problem.detail)).next(line(problem.hint))
            }
            ClientError::Unreachable { ref url, .. } => {
                let next = format!(
                    "start a server with `weaver serve`, or name another with --server (tried {url})"
                );
                Self::new(Exit::Busy, error.to_string()).next(next)
            }
            ClientError::Address { .. } => Self::new(Exit::Usage, error.to_string()),
            ClientError::Insecure { .. } => Self::new(Exit::Refused, error.to_string()),
            error => Self::new(Exit::Failed, error.to_string()),
        }
    }
}
