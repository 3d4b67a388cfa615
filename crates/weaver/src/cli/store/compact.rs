//! `weaver store compact`.

use serde_json::json;

use crate::cli::store::StoreTask;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, bytes};
use crate::wiring::{DirectoryStore, IfMissing};

pub(crate) async fn run(task: &StoreTask) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("compacting {}", task.url));
    let runtime = tokio::runtime::Handle::current();
    let work = move |store: &DirectoryStore| {
        let before = store.file_bytes()?;
        runtime.block_on(store.compact())?;
        Ok((before, store.file_bytes()?))
    };
    let (before, after) = task.on_store(IfMissing::Refuse, &progress, work).await?;
    let freed = before.saturating_sub(after);
    let answer = json!({"store": task.url.to_string(), "bytes_before": before, "bytes_after": after, "bytes_freed": freed});
    task.context
        .output
        .answer(&answer, || format!("{}: {} freed, {} remaining.\n", task.url, bytes(freed), bytes(after)))?;
    Ok(Exit::Done)
}
