//! `weaver schedules notices`.

use clap::Args;
use weaver_api::{Notices, NoticesQuery};

use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules notices\n  weaver schedules notices nightly")]
pub(crate) struct NoticesArgs {
    /// Only notices of this schedule
    name: Option<String>,
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
}

pub(super) async fn run(remote: &Remote<'_>, args: &NoticesArgs) -> Result<Exit, Failure> {
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let query = NoticesQuery { namespace: Some(remote.namespace.clone()), after, limit: Some(1000) };
        let page = remote.client.notices(&query).await?;
        let Some(last) = page.items.last() else { break };
        after = Some(last.seq);
        items.extend(page.items);
    }
    items.retain(|entry| args.name.as_ref().is_none_or(|name| *name == entry.notice.schedule));
    let notices = Notices { items };
    let output = &remote.context.output;
    output.answer(&notices, || {
        if notices.items.is_empty() {
            return "No notices: every run enqueued its task.\n".to_owned();
        }
        let mut table = Table::new(["TIME", "SCHEDULE", "NOTICE", "RUNS", "REASON"]);
        for entry in &notices.items {
            let notice = &entry.notice;
            let count =
                if notice.is_exact { notice.count.to_string() } else { format!("over {}", notice.count) };
            table.row([
                instant(notice.at),
                notice.schedule.clone(),
                notice.kind.clone(),
                count,
                notice.reason.clone(),
            ]);
        }
        output.render(&table)
    })?;
    Ok(Exit::Done)
}
