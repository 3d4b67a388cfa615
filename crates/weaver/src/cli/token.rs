//! `weaver token`: for curl and scripts.

use clap::Args;
use serde_json::json;

use crate::cli::{Context, StoreArgs, identity};
use crate::config::keys;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver token\n  \
    curl -H \"Authorization: Bearer $(weaver token)\" http://127.0.0.1:7117/api/v1/tasks\n\n\
    Whoever has it can do anything on that server. `weaver tokens create` makes lesser ones.")]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

pub(crate) fn run(context: &Context) -> Result<Exit, Failure> {
    let Some(token) = identity::root_token(&context.config)? else {
        let store = context.config.text(keys::STORE);
        return Err(Failure::new(Exit::NotFound, format!("there is no token in {store} yet"))
            .next("the first start of a server on that store makes it; or name another store with --store"));
    };
    context.output.answer(&json!({"token": token.expose()}), || format!("{}\n", token.expose()))?;
    Ok(Exit::Done)
}
