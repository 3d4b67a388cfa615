//! Reasons that are records this process cannot read.

use crate::admission;
use crate::error::Result;
use crate::explain::Reason;
use crate::id::TaskId;
use crate::name::{Namespace, SerialKey};
use crate::ports::Store;
use crate::quarantine::{Quarantined, RecordKind};
use crate::task::TaskRecord;

/// Quarantined records read per explanation.
const FINDINGS_MAX: u32 = 1000;

/// The unreadable task that holds a serial key.
pub(super) async fn key_holder<S: Store + ?Sized>(
    store: &S,
    record: &TaskRecord,
    key: &SerialKey,
) -> Result<Option<Reason>> {
    let found = findings(store, &record.key.namespace, RecordKind::Task).await?;
    let holders = found.into_iter().filter(|each| each.serial_key.as_ref() == Some(key));
    let goes_first = |each: Quarantined| {
        let id = TaskId::of_text(&each.id);
        let is_first =
            admission::goes_first(id, !waits_for_its_first_start(&each), true, record.key.id, false);
        is_first.then_some((id, each.id))
    };
    let first = holders.filter_map(goes_first).min();
    Ok(first.map(|(_, by)| Reason::KeyUnreadable { by }))
}

/// How many slots of a task's queue are taken by unreadable tasks.
pub(super) async fn slots<S: Store + ?Sized>(store: &S, record: &TaskRecord) -> Result<Option<Reason>> {
    let found = findings(store, &record.key.namespace, RecordKind::Task).await?;
    let queue = record.spec.queue.clone();
    let holds = |each: &&Quarantined| each.holds_slot && each.queue.as_ref() == Some(&queue);
    let count = found.iter().filter(holds).count() as u64;
    Ok((count > 0).then_some(Reason::SlotsUnreadable { queue, count }))
}

/// Whether the settings of a task's queue cannot be read. Call it after listing the queues, which adds them
/// to the quarantine.
pub(super) async fn settings<S: Store + ?Sized>(store: &S, record: &TaskRecord) -> Result<Option<Reason>> {
    let found = findings(store, &record.key.namespace, RecordKind::QueueSettings).await?;
    let queue = record.spec.queue.clone();
    let is_of_queue = |each: &Quarantined| each.queue.as_ref() == Some(&queue);
    Ok(found.iter().any(is_of_queue).then_some(Reason::SettingsUnreadable { queue }))
}

/// By each store's own word for the state; a task in any other state may have started, and then holds its
/// key.
fn waits_for_its_first_start(finding: &Quarantined) -> bool {
    !finding.holds_slot
        && matches!(finding.state.as_deref(), Some("queued" | "scheduled" | "PENDING" | "QUEUED"))
}

async fn findings<S: Store + ?Sized>(
    store: &S,
    namespace: &Namespace,
    kind: RecordKind,
) -> Result<Vec<Quarantined>> {
    let page = store.list_quarantined(Some(namespace), None, FINDINGS_MAX).await?;
    Ok(page.items.into_iter().filter(|each| each.kind == kind).collect())
}
