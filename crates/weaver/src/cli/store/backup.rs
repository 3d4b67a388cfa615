//! `weaver store backup`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::cli::StoreArgs;
use crate::cli::store::StoreTask;
use crate::exit::{Exit, Failure};
use crate::output::Progress;
use crate::wiring::{DirectoryStore, IfMissing};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver store backup ./backup-1\n  weaver store backup --store ./weaver-data ./backup-2\n\n\
    The copy is a store itself. It appears when it is complete, and never replaces another store."
)]
pub(crate) struct BackupArgs {
    /// Target directory, which must not hold a store
    directory: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

pub(crate) async fn run(task: &StoreTask, args: BackupArgs) -> Result<Exit, Failure> {
    let shown = args.directory.display().to_string();
    let progress = Progress::new(format!("copying {} to {shown}", task.url));
    let work = move |store: &DirectoryStore| Ok(store.backup(args.directory)?);
    let rows = task.on_store(IfMissing::Refuse, &progress, work).await?;
    let answer = json!({"store": task.url.to_string(), "backup": shown, "rows": rows});
    task.context.output.answer(&answer, || {
        format!(
            "Copied {} to {shown} ({rows} rows).\nVerify it: weaver store check --store {shown}\n",
            task.url
        )
    })?;
    Ok(Exit::Done)
}
