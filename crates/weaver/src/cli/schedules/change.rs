//! `weaver schedules enable`, `disable`, `run-now` and `remove`.

use serde_json::json;
use weaver_api::ExpectQuery;

use crate::cli::remote::Remote;
use crate::cli::tasks::wait;
use crate::exit::{Exit, Failure};
use crate::output::instant;

pub(super) async fn enable(remote: &Remote<'_>, name: &str, enabled: bool) -> Result<Exit, Failure> {
    let schedule = remote.client.enable_schedule(&remote.namespace, name, enabled).await?;
    remote.context.output.answer(&schedule, || match (enabled, schedule.next_run_at) {
        (true, Some(at)) => format!("Schedule {name} is enabled; next run at {}.\n", instant(at)),
        (true, None) => format!("Schedule {name} is enabled.\n"),
        (false, _) => format!("Schedule {name} is disabled; tasks it already enqueued are not affected.\n"),
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
    remote.context.output.answer(&json!({ "removed": name }), || {
        format!("Schedule {name} is removed; tasks it already enqueued are not affected.\n")
    })?;
    Ok(Exit::Done)
}
