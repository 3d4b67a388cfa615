//! `weaver merge verify`, `chain` and `on-foreign`: the chain of signed landings, and commits pushed from
//! outside the queue.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weaver_api::MergeChainVerified;
use weaver_api::merge_convert as convert;
use weaver_merge::engine::{ChainExport, EngineError};
use weaver_merge::keys::read_public_keys;

use super::access::Access;
use super::{Common, show, side};
use crate::cli::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge verify 3\n  weaver merge verify --all\n  \
    weaver merge verify --chain chain.json --repository project.git --key node1.pub --key node2.pub\n\n\
    --chain verifies offline: the file is written by `weaver merge chain`, the keys by `weaver merge key show`.\n\
    Untested commits on the base are listed. Exit code 5: the history differs from the chain.")]
pub(crate) struct VerifyArgs {
    /// Number of the entry
    #[arg(required_unless_present_any = ["all", "chain"], conflicts_with_all = ["all", "chain"])]
    entry: Option<u64>,
    /// Verify every landing
    #[arg(long)]
    all: bool,
    /// Chain exported by `weaver merge chain`
    #[arg(long, value_name = "FILE", requires_all = ["repository", "key"], conflicts_with_all = ["server", "store"])]
    chain: Option<PathBuf>,
    /// Path of the repository or a clone of it
    #[arg(long, value_name = "PATH", requires = "chain")]
    repository: Option<PathBuf>,
    /// File of trusted public keys, one per line; may be repeated
    #[arg(long, value_name = "FILE", requires = "chain")]
    key: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge chain > chain.json")]
pub(crate) struct ChainArgs {
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver merge on-foreign accept\n  weaver merge on-foreign pause --queue project:main\n\n\
    An accepted push is recorded in the chain, and `weaver merge verify` lists it as untested.\n\
    A base that was moved back is never accepted automatically: see `weaver merge resume --accept`."
)]
pub(crate) struct OnForeignArgs {
    /// Policy for commits pushed from outside the queue
    what: OnForeign,
    #[command(flatten)]
    pub(super) common: Common,
}

/// The policy for commits pushed to the base from outside the queue.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OnForeign {
    /// Accept them, recorded as untested
    Accept,
    /// Pause the queue until the commit is accepted explicitly
    Pause,
}

impl OnForeign {
    pub(super) fn to_wire(self) -> weaver_api::OnForeign {
        match self {
            Self::Accept => weaver_api::OnForeign::Accept,
            Self::Pause => weaver_api::OnForeign::Pause,
        }
    }
}

impl VerifyArgs {
    pub(super) fn is_offline(&self) -> bool {
        self.chain.is_some()
    }
}

pub(super) async fn verify(access: &Access<'_>, queue: &str, args: &VerifyArgs) -> Result<Exit, Failure> {
    if let Some(entry) = args.entry {
        return show::verify(access, queue, entry).await;
    }
    let mut all = access.verify_chain(queue, 0).await?;
    while let Some(from) = all.next {
        let more = access.verify_chain(queue, from).await?;
        // Differences of the chain itself are reported with every page.
        all.links.extend(more.links);
        all.differences.extend(more.differences);
        (all.base, all.next) = (more.base, more.next);
    }
    all.links.sort_by_key(|link| link.sequence);
    all.links.dedup();
    all.differences.sort();
    all.differences.dedup();
    print_verified(&access.context().output, &all)
}

/// Without a server or a store.
pub(super) async fn verify_offline(args: &VerifyArgs, context: &Context) -> Result<Exit, Failure> {
    let (Some(chain), Some(repository)) = (&args.chain, &args.repository) else {
        return Err(Failure::new(Exit::Usage, "--chain and --repository are required").next("give both"));
    };
    let text = std::fs::read(chain).map_err(|error| Failure::io(chain, &error))?;
    let export: ChainExport = serde_json::from_slice(&text).map_err(|error| {
        Failure::new(Exit::Usage, format!("{} is not a chain: {error}", chain.display()))
            .next("export one with `weaver merge chain`")
    })?;
    let mut trusted = Vec::new();
    for file in &args.key {
        trusted.extend(read_public_keys(file).map_err(EngineError::from)?);
    }
    let path = std::fs::canonicalize(repository).map_err(|error| Failure::io(repository, &error))?;
    let forge = side::forges(&context.config, &context.clock).at(path);
    let report = export.verify(&forge, &trusted, 0..u64::MAX).await?;
    print_verified(&context.output, &convert::chain_verified(&report, None))
}

fn print_verified(output: &Output, verified: &MergeChainVerified) -> Result<Exit, Failure> {
    let wrong = verified.links.iter().flat_map(|link| {
        link.differences.iter().map(move |text| match link.entry {
            Some(entry) => format!("link {} (entry {entry}): {text}", link.sequence),
            None => format!("link {}: {text}", link.sequence),
        })
    });
    let wrong: Vec<String> =
        verified.differences.iter().cloned().chain(wrong).chain(verified.base.clone()).collect();
    output.answer(verified, || {
        let landings = verified.links.iter().filter(|link| link.kind == "landing").count();
        let mut text = String::new();
        for link in &verified.links {
            if let Some(untested) = &link.untested {
                text += &format!("untested: link {}: {untested}\n", link.sequence);
            }
        }
        for problem in &wrong {
            text += &format!("WRONG: {problem}\n");
        }
        let sum = if wrong.is_empty() { "verified" } else { "NOT verified" };
        text + &format!("{} links, {landings} landings: {sum}.\n", verified.links.len())
    })?;
    Ok(if wrong.is_empty() { Exit::Done } else { Exit::Damaged })
}

/// Always JSON.
pub(super) async fn export(access: &Access<'_>, queue: &str) -> Result<(), Failure> {
    let chain = access.chain(queue).await?;
    access.context().output.answer(&chain, || serde_json::to_string_pretty(&chain).unwrap_or_default() + "\n")
}

pub(super) async fn on_foreign(
    access: &Access<'_>,
    queue: &str,
    args: &OnForeignArgs,
) -> Result<(), Failure> {
    let queue = access.set_on_foreign(queue, Some(args.what.to_wire())).await?;
    access.context().output.answer(&queue, || match args.what {
        OnForeign::Accept => format!(
            "{}: commits pushed from outside the queue are accepted and recorded as untested.\n",
            queue.id
        ),
        OnForeign::Pause => format!("{}: commits pushed from outside the queue pause it.\n", queue.id),
    })
}
