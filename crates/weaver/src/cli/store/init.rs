//! `weaver store init`.

use serde_json::json;

use crate::cli::store::StoreTask;
use crate::exit::{Exit, Failure};
use crate::output::Progress;

pub(crate) async fn run(task: &StoreTask) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("making {}", task.url));
    let done = task.init(&progress).await?;
    let mut answer = json!({"store": task.url.to_string(), "made": done.made});
    match done.format {
        Some(format) => answer["format"] = json!(format),
        None => answer["lines"] = json!(done.lines),
    }
    task.context.output.answer(&answer, || match (done.made, done.format) {
        (false, _) => format!("{} is a store already, and is left as it is.\n", task.url),
        (true, Some(format)) => format!("{} is a store now, in format {format}.\n", task.url),
        (true, None) => format!("{}\n{} is a store now.\n", done.lines.join("\n"), task.url),
    })?;
    Ok(Exit::Done)
}
