//! `weaver tokens …`: API tokens, managed through the server or, with `--store`, in a store that no server
//! has open.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use weaver::core::clock::Clock;
use weaver::core::limits::PAGE_MAX;
use weaver::core::name::Namespace;
use weaver::core::ports::Cursor;
use weaver_api as wire;
use weaver_client::Client;
use weaver_server::security::{NamespaceScope, NewToken, Role, TokenError, Tokens};

use crate::cli::remote::connect;
use crate::cli::store::StoreTask;
use crate::cli::{Context, Given, StoreArgs};
use crate::config::{keys, parse_span};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, Table, instant, word};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver tokens create ci --role producer\n  weaver tokens list\n\n\
    Tokens are managed through the server. Without one, name the store: weaver tokens list --store ./weaver-data")]
pub(crate) enum Command {
    /// Create a token and print it; it is not shown again
    Create(CreateArgs),
    /// List tokens, without their secrets
    List(ListArgs),
    /// Revoke a token
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Server URL, or unix:PATH of its socket [default: this user's server on this machine]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    server: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tokens create ci --role producer --namespaces build,deploy\n  \
    weaver tokens create guest --role viewer --expires-in 30d")]
pub(crate) struct CreateArgs {
    /// Name of the token: its owner or purpose
    name: String,
    /// Role: viewer, producer, worker, operator or admin
    #[arg(long)]
    role: Role,
    /// Namespaces it is valid for, comma-separated [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Allow it to enqueue `exec` and `prompt` tasks, which run programs
    #[arg(long)]
    may_exec: bool,
    /// Lifetime: 12h, 30d [default: no expiry]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tokens list\n  weaver tokens list --output json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tokens revoke 3f2a9c10b7d4e5f6")]
pub(crate) struct RevokeArgs {
    /// Id of the token, as shown by `weaver tokens list`
    id: String,
    #[command(flatten)]
    place: PlaceArgs,
}

impl Command {
    pub(crate) fn given(&self) -> [Given<'_>; 2] {
        let place = match self {
            Self::Create(args) => &args.place,
            Self::List(args) => &args.place,
            Self::Revoke(args) => &args.place,
        };
        [place.store.setting(), (keys::SERVER, place.server.as_ref())]
    }

    fn names_a_store(&self) -> bool {
        self.given()[0].1.is_some()
    }
}

pub(crate) async fn run(command: Command, context: Context) -> Result<Exit, Failure> {
    if !command.names_a_store() {
        let backend = Backend::Server(connect(&context.config)?.client);
        return execute(command, &backend, &context).await;
    }
    let task = StoreTask::new(context)?;
    let store = task.open_to_work(&Progress::new("opening the store")).await?;
    let clock = Arc::clone(&task.context.clock);
    let backend = Backend::Store(Tokens::new(store, Arc::clone(&clock)), clock);
    execute(command, &backend, &task.context).await
}

async fn execute(command: Command, backend: &Backend, context: &Context) -> Result<Exit, Failure> {
    match command {
        Command::Create(args) => create(backend, args, context).await,
        Command::List(_) => list(backend, context).await,
        Command::Revoke(args) => revoke(backend, &args.id, context).await,
    }
}

/// Where the tokens are: behind a server, or in a store that no server has open.
enum Backend {
    Server(Client),
    Store(Tokens, Arc<dyn Clock>),
}

impl Backend {
    async fn create(&self, new: wire::NewToken) -> Result<wire::CreatedToken, Failure> {
        match self {
            Self::Server(client) => Ok(client.create_token(&new).await?),
            Self::Store(tokens, clock) => {
                let names: Result<Vec<_>, _> =
                    new.namespaces.into_iter().flatten().map(Namespace::new).collect();
                let names = names.map_err(|error| {
                    Failure::new(Exit::Usage, error.to_string()).next("correct --namespaces")
                })?;
                let lasting = new.expires_in_ms.map(Duration::from_millis);
                let new = NewToken {
                    name: new.name,
                    role: new.role,
                    namespaces: if names.is_empty() {
                        NamespaceScope::All
                    } else {
                        NamespaceScope::only(names)
                    },
                    may_exec: new.may_exec,
                    expires_at: lasting.map(|span| clock.now().saturating_add(span)),
                    created_by: "command line".to_owned(),
                };
                let (text, info) = tokens.create(new).await?;
                Ok(wire::CreatedToken { token: text.expose().to_owned(), info: (&info).into() })
            }
        }
    }

    async fn page(&self, cursor: Option<String>) -> Result<wire::Page<wire::Token>, Failure> {
        match self {
            Self::Server(client) => {
                Ok(client.tokens(&wire::PageQuery { cursor, limit: Some(PAGE_MAX) }).await?)
            }
            Self::Store(tokens, _) => {
                let page = tokens.list(cursor.map(Cursor), PAGE_MAX).await?;
                let items = page.items.iter().map(wire::Token::from).collect();
                Ok(wire::Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete })
            }
        }
    }

    async fn revoke(&self, id: &str) -> Result<(), Failure> {
        match self {
            Self::Server(client) => Ok(client.revoke_token(id).await?),
            Self::Store(tokens, _) => {
                let unknown = || {
                    Failure::new(Exit::NotFound, format!("token {id} not found"))
                        .next("`weaver tokens list` lists all tokens")
                };
                Ok(tokens.revoke(&id.parse().map_err(|_| unknown())?).await?)
            }
        }
    }
}

async fn create(backend: &Backend, args: CreateArgs, context: &Context) -> Result<Exit, Failure> {
    let created = backend
        .create(wire::NewToken {
            name: args.name,
            role: args.role,
            namespaces: Some(args.namespaces).filter(|names| !names.is_empty()),
            may_exec: args.may_exec,
            expires_in_ms: args.expires_in.map(|span| span.as_millis() as u64),
        })
        .await?;
    context.output.answer(&json!(created), || format!("{}\n", created.token))?;
    Ok(Exit::Done)
}

async fn list(backend: &Backend, context: &Context) -> Result<Exit, Failure> {
    let mut items: Vec<wire::Token> = Vec::new();
    let mut cursor = None;
    loop {
        let page = backend.page(cursor).await?;
        items.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    context.output.answer(&json!({ "items": items }), || {
        let mut table = Table::new(["ID", "NAME", "ROLE", "NAMESPACES", "EXEC", "CREATED", "EXPIRES"]);
        for token in &items {
            table.row([
                token.id.clone(),
                token.name.clone(),
                word(&token.role),
                token.namespaces.as_ref().map_or_else(|| "*".to_owned(), |names| names.join(",")),
                if token.may_exec { "yes" } else { "no" }.to_owned(),
                instant(token.created_at),
                token.expires_at.map_or_else(|| "never".to_owned(), instant),
            ]);
        }
        context.output.render(&table)
    })?;
    Ok(Exit::Done)
}

async fn revoke(backend: &Backend, id: &str, context: &Context) -> Result<Exit, Failure> {
    backend.revoke(id).await?;
    context.output.answer(&json!({"id": id, "revoked": true}), || format!("Token {id} is revoked.\n"))?;
    Ok(Exit::Done)
}

pub(crate) fn span(text: &str) -> Result<Duration, String> {
    parse_span(text).ok_or_else(|| "give a number and a unit: 30s, 5m, 12h or 30d".to_owned())
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        let exit = match &error {
            TokenError::Invalid { .. } => Exit::Usage,
            TokenError::NotFound { .. } => Exit::NotFound,
            TokenError::Store(_) => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}
