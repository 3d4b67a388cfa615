//! The number of unreadable records, by kind.

use std::fmt::Write as _;

use weaver_core::limits::PAGE_MAX;
use weaver_core::quarantine::RecordKind;

use super::head;
use crate::api::{ApiResult, AppState};

const NAME: &str = "weaver_quarantined_records";
const KINDS: [RecordKind; 4] =
    [RecordKind::Task, RecordKind::QueueSettings, RecordKind::Runner, RecordKind::Document];

/// Every kind has a series, also at 0, so that an alert can be written in advance. A process lists at most
/// [`QUARANTINE_MAX`](weaver_core::quarantine::QUARANTINE_MAX) records, so the loop ends.
pub(super) async fn quarantined(state: &AppState, out: &mut String) -> ApiResult<()> {
    let mut counts = KINDS.map(|kind| (kind, 0_u64));
    let mut cursor = None;
    loop {
        let page = state.store.list_quarantined(None, cursor, PAGE_MAX).await?;
        for found in &page.items {
            counts.iter_mut().filter(|(kind, _)| *kind == found.kind).for_each(|(_, count)| *count += 1);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    head(out, NAME, "gauge", "Records in quarantine: unreadable by this server and left unchanged");
    for (kind, count) in counts {
        let _ = writeln!(out, "{NAME}{{kind=\"{kind}\"}} {count}"); // Writing to a String cannot fail.
    }
    Ok(())
}
