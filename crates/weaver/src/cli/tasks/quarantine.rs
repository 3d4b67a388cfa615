//! `weaver tasks quarantine`.

use clap::Args;
use weaver_api::{NamespacePageQuery, Page, QuarantinedRecord};

use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant};

/// Records per request.
const PAGE: u32 = 1000;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver tasks quarantine\n  weaver tasks quarantine --namespace other --output json\n\n\
    Lists unreadable records that the server has found so far. To read every record of a store: weaver store check"
)]
pub(crate) struct QuarantineArgs {
    /// Maximum number of records
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &QuarantineArgs) -> Result<Exit, Failure> {
    let (limit, mut items) = (args.limit, Vec::new());
    let mut query =
        NamespacePageQuery { namespace: Some(remote.namespace.clone()), ..NamespacePageQuery::default() };
    let next = loop {
        let missing = u32::try_from(limit.saturating_sub(items.len())).unwrap_or(PAGE).min(PAGE);
        if missing == 0 {
            break query.cursor.take();
        }
        query.limit = Some(missing);
        let page = remote.client.quarantine(&query).await?;
        items.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break None;
        }
    };
    let has_more = next.is_some();
    let page = Page { items, next, complete: !has_more };
    let output = &remote.context.output;
    output.answer(&page, || {
        if page.items.is_empty() {
            return "The server has found no unreadable records.\n".to_owned();
        }
        let mut table = Table::new(["KIND", "ID", "STATE", "QUEUE", "HOLDS", "FOUND", "REASON"]);
        for record in &page.items {
            table.row([
                record.kind.to_string(),
                record.id.clone(),
                record.state.clone().unwrap_or_default(),
                record.queue.clone().unwrap_or_default(),
                holds(record),
                instant(record.found_at),
                record.reason.clone(),
            ]);
        }
        let more = if has_more {
            format!("More records match: raise --limit (now {limit}).\n")
        } else {
            String::new()
        };
        output.render(&table) + &more
    })?;
    Ok(Exit::Done)
}

fn holds(record: &QuarantinedRecord) -> String {
    let key = record.holds.serial_key.as_ref().map(|key| format!("serial key {key}"));
    let slot = record.holds.slot.then(|| "queue slot".to_owned());
    let held: Vec<String> = key.into_iter().chain(slot).collect();
    if held.is_empty() { "nothing".to_owned() } else { held.join(", ") }
}
