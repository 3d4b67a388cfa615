//! `weaver store init`.

use serde_json::json;

use crate::cli::store::{IfMissing, StoreTask};
use crate::exit::{Exit, Failure};
use crate::output::Progress;
use crate::wiring::{FORMAT, is_store};

pub(crate) async fn run(task: &StoreTask) -> Result<Exit, Failure> {
    #[cfg(feature = "dynamodb")]
    if let crate::wiring::StoreUrl::DynamoDb(url) = &task.url {
        return in_dynamodb(task, url).await;
    }
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

/// Makes the tables that are missing, a line each.
#[cfg(feature = "dynamodb")]
async fn in_dynamodb(task: &StoreTask, url: &str) -> Result<Exit, Failure> {
    use crate::wiring::dynamodb;
    let connection = dynamodb::connection(url, &task.context.config)?;
    let lines = dynamodb::init(&connection).await?;
    let answer = json!({"store": url, "made": !lines.is_empty(), "lines": lines});
    task.context.output.answer(&answer, || match lines.is_empty() {
        true => format!("{url} is a store already, and is left as it is.\n"),
        false => format!("{}\n{url} is a store now.\n", lines.join("\n")),
    })?;
    Ok(Exit::Done)
}
