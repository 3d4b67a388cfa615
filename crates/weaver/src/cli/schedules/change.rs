//! `weaver schedules enable`, `disable`, `run-now` and `remove`.

use serde_json::json;
use weaver_api::ExpectQuery;

use crate::cli::remote::Remote;
use crate::cli::tasks::wait;
use crate::exit::{Exit, Failure};
use crate::output::instant;

pub(super) async fn enable(remote: &Remote<'_>, name: &str, enabled: bool) -> Result<Exit, Failure> {
    let schedule = remote.client.enable_schedule(&remote.namespace, name, enabled).await?;
    remote.context.output.answer(&schedule, || match (enabled, schedule.next_fire_at) {
        (true, Some(at)) => format!("{name} is enabled; it fires next at {}.\n", instant(at)),
        (true, None) => format!("{name} is enabled.\n"),
        (false, _) => format!("{name} is disabled; the tasks it made go on.\n"),
    })?;
    Ok(Exit::Done)
}

pub(super) async fn run_now(remote: &Remote<'_>, name: &str, is_waiting: bool) -> Result<Exit, Failure> {
    let task = remote.client.run_schedule_now(&remote.namespace, name).await?;
    if is_waiting {
        return wait::until_ended(remote, &task.id, None, wait::result).await;
    }
    remote.context.output.answer(&task, || format!("{}\n", task.id))?;
    Ok(Exit::Done)
}

pub(super) async fn remove(remote: &Remote<'_>, name: &str) -> Result<Exit, Failure> {
    let query = ExpectQuery { namespace: Some(remote.namespace.clone()), expected_version: None };
    remote.client.remove_schedule(name, &query).await?;
    remote
        .context
        .output
        .answer(&json!({ "removed": name }), || format!("{name} is removed; the tasks it made stay.\n"))?;
    Ok(Exit::Done)
}
