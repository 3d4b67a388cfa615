//! Items that this process cannot read. Each is one quarantine entry and affects no other item.

use std::collections::BTreeSet;
use std::time::Duration;

use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::name::{Namespace, QueueName, SerialKey, WorkerId};
use weaver_core::ports::{Admin, DocumentKey, RunnerKey};
use weaver_core::projection::queue_item::Status;
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};
use weaver_core::task::TaskRecord;

use crate::codec::foreign;
use crate::codec::record::key_of;
use crate::codec::texts::Texts;
use crate::codec::value::Attributes;
use crate::db::{Item, Table};
use crate::keys;
use crate::store::DynamoStore;

/// The item format that this version writes, and the newest it reads. Items without the attribute `format`
/// have format 1, as seed 000's clients write them.
pub(crate) const FORMAT: u64 = 1;

/// Interval at which quarantined items are read again.
const REVIEW_EVERY: Duration = Duration::from_secs(30);
/// Tasks read per batch of a review.
const REVIEW_BATCH: usize = 100;

/// An error if the item has a format that this version does not know.
pub(crate) fn check_format(item: &Item) -> Result<(), Unreadable> {
    if item.get("format").is_some_and(|format| !format.is_n()) {
        return Err(Unreadable::Undecodable { reason: "its attribute `format` is not a number".to_owned() });
    }
    match item.number("format") {
        None | Some(1..=FORMAT) => Ok(()),
        Some(found) => {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            Err(Unreadable::UnknownFormat { found, known: FORMAT as u32 })
        }
    }
}

/// Decodes a task's item, with its large values.
pub(crate) fn read(item: &Item, texts: &Texts) -> Result<TaskRecord, Unreadable> {
    check_format(item)?;
    foreign::read(item, texts).map_err(|error| Unreadable::Undecodable { reason: error.to_string() })
}

/// The queue of a task's item, if it can be read.
pub(crate) fn queue_of(item: &Item) -> Option<QueueName> {
    let of_spec = || {
        let spec: serde_json::Value = serde_json::from_str(item.text("spec")?).ok()?;
        QueueName::try_from(spec.get("queue")?.as_str()?).ok()
    };
    let of_index = || QueueName::try_from(*keys::split(item.text("ready_pk")?).last()?).ok();
    of_spec().or_else(of_index)
}

pub(crate) fn serial_key_of(item: &Item) -> Option<SerialKey> {
    SerialKey::try_from(item.text("serial_key")?).ok()
}

impl DynamoStore {
    /// Quarantines a task whose item cannot be read.
    pub(crate) fn set_aside(&self, key: &TaskKey, item: &Item, why: Unreadable) {
        // The cached record is not what is stored.
        self.forget(key);
        let (kind, id) = (RecordKind::Task, keys::name_in(key));
        let is_leased = item.contains_key("lease_token");
        let has_ended = foreign::status_of(item)
            .is_some_and(|status| matches!(status, Status::Complete | Status::Error | Status::Cancelled));
        let state = item.text("state").or_else(|| item.text("status"));
        let finding = Quarantined {
            queue: queue_of(item),
            state: state.map(str::to_owned),
            serial_key: serial_key_of(item).filter(|_| is_leased || !has_ended),
            holds_slot: is_leased || matches!(state, Some("assigned" | "orphaned")),
            ..Quarantined::new(kind, key.namespace.clone(), id, why, self.now())
        };
        self.quarantine.add(finding);
    }

    pub(crate) fn is_readable(&self, key: &TaskKey) {
        if !self.quarantine.is_empty() {
            self.quarantine.remove(&key.namespace, RecordKind::Task, &key.id.to_string());
        }
    }

    /// Whether a task is quarantined: then this process does not change it.
    pub(crate) fn is_quarantined(&self, key: &TaskKey) -> bool {
        !self.quarantine.is_empty()
            && self.quarantine.get(&key.namespace, RecordKind::Task, &key.id.to_string()).is_some()
    }

    /// Removes tasks from the quarantine that no longer exist.
    pub(crate) fn forget_missing(&self, wanted: &[TaskKey], found: &[Item]) {
        if self.quarantine.is_empty() {
            return;
        }
        let there: BTreeSet<TaskKey> = found.iter().filter_map(|item| key_of(item).ok()).collect();
        wanted.iter().filter(|key| !there.contains(key)).for_each(|key| self.is_readable(key));
    }

    pub(crate) fn document_set_aside(&self, key: &DocumentKey, why: Unreadable) {
        let id = format!("{}/{}", key.kind, key.id);
        let finding = Quarantined::new(RecordKind::Document, key.namespace.clone(), id, why, self.now());
        self.quarantine.add(finding);
    }

    /// Reads quarantined items again, if due. Makes no request while the quarantine is empty.
    pub(crate) async fn review_if_due(&self) -> Result<()> {
        let now = self.clock.monotonic();
        {
            let mut reviewed_at = self.reviewed_at.lock();
            if reviewed_at.is_some_and(|at| at.saturating_add(REVIEW_EVERY) > now) {
                return Ok(());
            }
            *reviewed_at = Some(now);
        }
        let (mut tasks, mut namespaces) = (Vec::new(), BTreeSet::new());
        for finding in self.quarantine.all() {
            match finding.kind {
                RecordKind::Task => {
                    tasks.push(TaskKey::of_text(finding.namespace.clone(), &finding.id));
                }
                RecordKind::QueueSettings => drop(namespaces.insert(finding.namespace.clone())),
                RecordKind::Runner => self.review_runner(&finding).await?,
                RecordKind::Document => self.review_document(&finding).await?,
            }
        }
        for some in tasks.chunks(REVIEW_BATCH) {
            self.load(some).await?;
        }
        for namespace in &namespaces {
            self.list_queues(namespace).await?;
        }
        Ok(())
    }

    async fn review_runner(&self, finding: &Quarantined) -> Result<()> {
        let Ok(runner_id) = WorkerId::try_from(finding.id.as_str()) else { return Ok(()) };
        let key = RunnerKey { namespace: finding.namespace.clone(), runner_id };
        let found = self.db.get(Table::Runners, vec![keys::runner(&key)]).await?;
        self.over_if(finding, found.first().is_none_or(|item| is_runner_readable(&key.namespace, item)));
        Ok(())
    }

    async fn review_document(&self, finding: &Quarantined) -> Result<()> {
        let Some((kind, id)) = finding.id.split_once('/') else { return Ok(()) };
        let key = DocumentKey::new(finding.namespace.clone(), kind, id);
        let found = self.db.get(Table::Data, vec![keys::document(&key)]).await?;
        let read = found.first().and_then(|item| crate::ports::read_document(key, item));
        self.over_if(finding, !matches!(read, Some(Err(_))));
        Ok(())
    }

    fn over_if(&self, finding: &Quarantined, is_over: bool) {
        if is_over {
            self.quarantine.remove(&finding.namespace, finding.kind, &finding.id);
        }
    }
}

fn is_runner_readable(namespace: &Namespace, item: &Item) -> bool {
    !matches!(crate::ports::read_runner(namespace, item), Some(Err(_)))
}
