//! `weaver store init`.

use serde_json::json;

use crate::cli::store::{IfMissing, StoreTask};
use crate::exit::{Exit, Failure};
use crate::output::Progress;
use crate::wiring::{FORMAT, is_store};

pub(crate) async fn run(task: &StoreTask) -> Result<Exit, Failure> {
    let was_there = is_store(task.url.directory()?);
    let progress = Progress::new(format!("making {}", task.url));
    task.on_store(IfMissing::Make, &progress, |_| Ok(())).await?;
    let answer = json!({"store": task.url.to_string(), "made": !was_there, "format": FORMAT});
    task.context.output.answer(&answer, || match was_there {
        true => format!("{} is a store already, and is left as it is.\n", task.url),
        false => format!("{} is a store now, in format {FORMAT}.\n", task.url),
    })?;
    Ok(Exit::Done)
}
