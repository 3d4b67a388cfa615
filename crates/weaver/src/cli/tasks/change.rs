//! `weaver tasks cancel`, `retry` and `run-now`.

use serde_json::{Value, json};

use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};
use crate::output::{print_failure, state};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Cancel,
    Retry,
    RunNow,
}

/// Continues after a failure: one task that cannot be changed does not protect the others.
pub(crate) async fn run(remote: &Remote<'_>, ids: &[String], change: Change) -> Result<Exit, Failure> {
    let mut answers: Vec<Value> = Vec::new();
    let mut lines = String::new();
    let mut failed = None;
    for id in ids {
        match one(remote, id, change).await {
            Ok((answer, line)) => {
                answers.push(answer);
                lines.push_str(&line);
            }
            Err(failure) if ids.len() == 1 => return Err(failure),
            Err(failure) => {
                print_failure(&failure, remote.context.output.is_json);
                failed.get_or_insert(failure.exit);
            }
        }
    }
    remote.context.output.answer(&json!({ "tasks": answers }), || lines)?;
    Ok(failed.unwrap_or(Exit::Done))
}

async fn one(remote: &Remote<'_>, id: &str, change: Change) -> Result<(Value, String), Failure> {
    let (client, namespace) = (&remote.client, remote.namespace.as_str());
    let task = match change {
        Change::Cancel => client.cancel(namespace, id).await?,
        Change::RunNow => client.run_now(namespace, id).await?,
        Change::Retry => {
            let new = client.retry(namespace, id).await?;
            let line = format!("Task {id} is retried as task {}.\n", new.id);
            return Ok((json!({"id": new.id, "namespace": new.namespace, "retry_of": id}), line));
        }
    };
    let line = match change {
        Change::RunNow => format!("Task {id} is due now ({}).\n", state(task.state)),
        _ => format!("Task {id} is {}.\n", state(task.state)),
    };
    Ok((json!({"id": task.id, "namespace": task.namespace, "state": task.state}), line))
}
