//! `weaver tokens …`: who may come in. They are kept in the store, hashed.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use weaver::core::name::Namespace;
use weaver_server::security::{NamespaceScope, NewToken, Role, TokenError, TokenInfo, Tokens};

use crate::cli::store::StoreTask;
use crate::cli::{Context, StoreArgs};
use crate::config::parse_span;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, Table, instant, word};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver tokens create ci --role producer\n  weaver tokens list\n\n\
    These open the store themselves: stop the server that has it open first.")]
pub(crate) enum Command {
    /// Make a token and print it, this once
    Create(CreateArgs),
    /// List the tokens, without their secrets
    List(ListArgs),
    /// End a token
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tokens create ci --role producer --namespaces build,deploy\n  \
    weaver tokens create guest --role viewer --expires-in 30d")]
pub(crate) struct CreateArgs {
    /// Whose it is, or what for
    name: String,
    /// What it may do: viewer, producer, worker, operator or admin
    #[arg(long)]
    role: Role,
    /// Where, separated by commas; everywhere if not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Let it enqueue tasks that run programs
    #[arg(long)]
    may_exec: bool,
    /// How long it is good: 12h, 30d; for ever if not given
    #[arg(long, value_name = "SPAN", value_parser = span)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tokens list\n  weaver tokens list --output json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tokens revoke 3f2a9c10b7d4e5f6")]
pub(crate) struct RevokeArgs {
    /// Its id, as `list` shows it
    id: String,
    #[command(flatten)]
    store: StoreArgs,
}

impl Command {
    pub(crate) fn store(&self) -> &StoreArgs {
        match self {
            Self::Create(args) => &args.store,
            Self::List(args) => &args.store,
            Self::Revoke(args) => &args.store,
        }
    }
}

pub(crate) async fn run(command: Command, context: Context) -> Result<Exit, Failure> {
    let task = StoreTask::new(context)?;
    let store = task.open(&Progress::new("opening the store")).await?;
    let context = &task.context;
    let tokens = Tokens::new(store, Arc::clone(&context.clock));
    match command {
        Command::Create(args) => create(&tokens, args, context).await,
        Command::List(_) => list(&tokens, context).await,
        Command::Revoke(args) => revoke(&tokens, &args.id, context).await,
    }
}

async fn create(tokens: &Tokens, args: CreateArgs, context: &Context) -> Result<Exit, Failure> {
    let names: Result<Vec<_>, _> = args.namespaces.into_iter().map(Namespace::new).collect();
    let names =
        names.map_err(|error| Failure::new(Exit::Usage, error.to_string()).next("correct --namespaces"))?;
    let new = NewToken {
        name: args.name,
        role: args.role,
        namespaces: if names.is_empty() { NamespaceScope::All } else { NamespaceScope::only(names) },
        may_exec: args.may_exec,
        expires_at: args.expires_in.map(|span| context.clock.now().saturating_add(span)),
        created_by: "command line".to_owned(),
    };
    let (text, info) = tokens.create(new).await?;
    context
        .output
        .answer(&json!({"token": text.expose(), "info": info}), || format!("{}\n", text.expose()))?;
    Ok(Exit::Done)
}

async fn list(tokens: &Tokens, context: &Context) -> Result<Exit, Failure> {
    let mut items: Vec<TokenInfo> = Vec::new();
    let mut cursor = None;
    loop {
        let page = tokens.list(cursor, weaver::core::limits::PAGE_MAX).await?;
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
                token.id.to_string(),
                token.name.to_string(),
                token.role.to_string(),
                word(&token.namespaces),
                if token.may_exec { "yes" } else { "no" }.to_owned(),
                instant(token.created_at),
                token.expires_at.map_or_else(|| "never".to_owned(), instant),
            ]);
        }
        context.output.render(&table)
    })?;
    Ok(Exit::Done)
}

async fn revoke(tokens: &Tokens, id: &str, context: &Context) -> Result<Exit, Failure> {
    let unknown = || {
        Failure::new(Exit::NotFound, format!("there is no token {id}"))
            .next("`weaver tokens list` shows what there is")
    };
    let id = id.parse().map_err(|_| unknown())?;
    tokens.revoke(&id).await?;
    context
        .output
        .answer(&json!({"id": id, "revoked": true}), || format!("{id} is good for nothing any more.\n"))?;
    Ok(Exit::Done)
}

fn span(text: &str) -> Result<Duration, String> {
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
