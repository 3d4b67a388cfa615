//! `weaver tasks groups`.

use clap::Args;
use weaver::core::projection::queue_item::Status;
use weaver_api::{Group, NamespacePageQuery, Page};

use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver tasks groups\n  weaver tasks groups --namespace my-app-1a2b3c4d\n\n\
    QUEUED has not started; RUNNING has started and not ended, between attempts too. With --output json the counts are per state."
)]
pub(crate) struct GroupsArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>) -> Result<Exit, Failure> {
    let mut items: Vec<Group> = Vec::new();
    let mut query =
        NamespacePageQuery { namespace: Some(remote.namespace.clone()), limit: Some(1000), cursor: None };
    loop {
        let page = remote.client.groups(&query).await?;
        items.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let page = Page { items, next: None, complete: true };
    let output = &remote.context.output;
    output.answer(&page, || {
        let mut table =
            Table::new(["GROUP", "QUEUED", "RUNNING", "SUCCEEDED", "DEAD", "CANCELLED", "LAST CHANGE"]);
        for group in &page.items {
            let count = |status| count(group, status).to_string();
            table.row([
                group.id.clone(),
                count(Status::Queued),
                count(Status::Running),
                count(Status::Complete),
                count(Status::Error),
                count(Status::Cancelled),
                instant(group.last_at),
            ]);
        }
        output.render(&table)
    })?;
    Ok(Exit::Done)
}

/// The tasks of a group with a status. A count per state cannot tell which waiting tasks have started before:
/// hardly any has.
fn count(group: &Group, status: Status) -> u64 {
    let states = group.counts.0.iter();
    states.filter(|(state, _)| Status::project(**state, false) == status).map(|(_, count)| count).sum()
}
