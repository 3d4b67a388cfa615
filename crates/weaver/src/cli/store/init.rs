//! `weaver store init`.

use serde_json::json;

use crate::cli::store::StoreTask;
use crate::exit::{Exit, Failure};
use crate::output::Progress;

pub(crate) async fn run(task: &StoreTask) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("creating {}", task.url));
    let done = task.init(&progress).await?;
    let mut answer = json!({"store": task.url.to_string(), "made": done.made});
    match done.format {
        Some(format) => answer["format"] = json!(format),
        None => answer["lines"] = json!(done.lines),
    }
    task.context.output.answer(&answer, || match (done.made, done.format) {
        (false, _) => format!("{} already exists and is left unchanged.\n", task.url),
        (true, Some(format)) => format!("Created store {}, format {format}.\n", task.url),
        (true, None) => format!("{}\nCreated store {}.\n", done.lines.join("\n"), task.url),
    })?;
    Ok(Exit::Done)
}
