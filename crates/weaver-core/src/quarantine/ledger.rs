//! The list of records that this process found unreadable.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::Mutex;

use crate::error::{Invalid, Problem, Result};
use crate::id::TaskId;
use crate::limits::check_page;
use crate::name::Namespace;
use crate::ports::{Cursor, Page};
use crate::quarantine::{Quarantined, RecordKind};

/// The most records one process lists. Further ones are skipped and logged, but not listed: a table that is
/// entirely unreadable must not fill the memory.
pub const QUARANTINE_MAX: usize = 10_000;

type Place = (Namespace, RecordKind, String);

/// What one process found unreadable: in memory only, so that a finding affects no other process.
#[derive(Debug, Default)]
pub struct Quarantine {
    // Ordered, because it is listed in pages.
    found: Mutex<BTreeMap<Place, Quarantined>>,
}

impl Quarantine {
    /// Adds a finding; a later one about the same record replaces it but keeps when it was first found. Logs
    /// what is new.
    pub fn add(&self, finding: Quarantined) {
        let place = place(&finding.namespace, finding.kind, &finding.id);
        let mut found = self.found.lock();
        if let Some(known) = found.get_mut(&place) {
            let found_at = known.found_at;
            *known = Quarantined { found_at, ..finding };
            return;
        }
        let full = found.len() >= QUARANTINE_MAX;
        if !full {
            found.insert(place, finding.clone());
        }
        drop(found);
        let Quarantined { kind, namespace, id, reason, .. } = finding;
        tracing::error!(%kind, %namespace, id, %reason, listed = !full, "unreadable record quarantined");
    }

    /// Removes a finding, after the record was read or removed. Returns whether there was one.
    pub fn remove(&self, namespace: &Namespace, kind: RecordKind, id: &str) -> bool {
        let mut found = self.found.lock();
        !found.is_empty() && found.remove(&place(namespace, kind, id)).is_some()
    }

    /// Replaces the findings of one kind in a namespace, after all its records were read.
    pub fn settle(&self, namespace: &Namespace, kind: RecordKind, unreadable: Vec<Quarantined>) {
        {
            let still: Vec<Place> =
                unreadable.iter().map(|finding| place(namespace, kind, &finding.id)).collect();
            let mut found = self.found.lock();
            found.retain(|known, _| known.0 != *namespace || known.1 != kind || still.contains(known));
        }
        unreadable.into_iter().for_each(|finding| self.add(finding));
    }

    /// The finding about one record, if there is one.
    pub fn get(&self, namespace: &Namespace, kind: RecordKind, id: &str) -> Option<Quarantined> {
        let found = self.found.lock();
        if found.is_empty() {
            return None;
        }
        found.get(&place(namespace, kind, id)).cloned()
    }

    /// Whether every record read so far was readable.
    pub fn is_empty(&self) -> bool {
        self.found.lock().is_empty()
    }

    /// Every finding, by namespace, kind and id.
    pub fn all(&self) -> Vec<Quarantined> {
        self.found.lock().values().cloned().collect()
    }

    /// The tasks of a namespace that a lease call skips.
    pub fn task_ids(&self, namespace: &Namespace) -> Vec<TaskId> {
        let found = self.found.lock();
        let tasks =
            found.values().filter(|each| each.kind == RecordKind::Task && each.namespace == *namespace);
        tasks.map(|each| TaskId::of_text(&each.id)).collect()
    }

    /// A page of the findings, of one namespace or of all.
    pub fn page(
        &self,
        namespace: Option<&Namespace>,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>> {
        check_page(limit)?;
        let start = match cursor {
            None => Bound::Unbounded,
            Some(cursor) => Bound::Excluded(place_of(&cursor)?),
        };
        let found = self.found.lock();
        let mut rest = found
            .range((start, Bound::Unbounded))
            .filter(|((place, ..), _)| namespace.is_none_or(|wanted| place == wanted));
        let items: Vec<_> = rest.by_ref().take(limit as usize).map(|(_, each)| each.clone()).collect();
        let next = rest.next().and(items.last()).map(cursor_of);
        Ok(Page { items, next, complete: true })
    }
}

/// Where a finding is listed: a task by its number, which each of its texts leads to.
fn place(namespace: &Namespace, kind: RecordKind, id: &str) -> Place {
    let id = match kind {
        RecordKind::Task => TaskId::of_text(id).to_string(),
        _ => id.to_owned(),
    };
    (namespace.clone(), kind, id)
}

fn cursor_of(last: &Quarantined) -> Cursor {
    let place = (last.namespace.as_str(), last.kind, &last.id);
    Cursor(serde_json::to_string(&place).unwrap_or_default())
}

fn place_of(cursor: &Cursor) -> Result<Place, Invalid> {
    let (namespace, kind, id): Place =
        serde_json::from_str(&cursor.0).map_err(|_| Invalid::new("cursor", Problem::UnknownCursor))?;
    Ok(place(&namespace, kind, &id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quarantine::Unreadable;
    use crate::time::Timestamp;

    fn finding(namespace: &str, id: u32, at: i64) -> Quarantined {
        let why = Unreadable::Undecodable { reason: "labels".to_owned() };
        let namespace = Namespace::try_from(namespace).unwrap();
        Quarantined::new(RecordKind::Task, namespace, id.to_string(), why, Timestamp::from_micros(at))
    }

    #[test]
    fn a_repeated_finding_keeps_when_it_was_first_found() {
        let quarantine = Quarantine::default();
        quarantine.add(finding("a", 1, 10));
        quarantine.add(finding("a", 1, 20));
        assert_eq!(quarantine.all(), [finding("a", 1, 10)]);
        assert!(quarantine.remove(&Namespace::try_from("a").unwrap(), RecordKind::Task, "1"));
        assert!(quarantine.is_empty());
    }

    #[test]
    fn pages_show_every_finding_of_a_namespace_once() {
        let quarantine = Quarantine::default();
        (0..7).for_each(|id| quarantine.add(finding("a", id, 1)));
        quarantine.add(finding("b", 1, 1));
        let wanted = Namespace::try_from("a").unwrap();
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let page = quarantine.page(Some(&wanted), cursor, 3).unwrap();
            seen.extend(page.items.into_iter().map(|each| each.id));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["0", "1", "2", "3", "4", "5", "6"]);
        assert!(quarantine.page(None, Some(Cursor("x".to_owned())), 3).is_err());
    }

    #[test]
    fn findings_that_are_not_repeated_are_removed() {
        let quarantine = Quarantine::default();
        for (namespace, id) in [("a", 1), ("a", 2), ("b", 1)] {
            quarantine.add(finding(namespace, id, 1));
        }
        let again = vec![finding("a", 2, 5), finding("a", 3, 5)];
        quarantine.settle(&Namespace::try_from("a").unwrap(), RecordKind::Task, again);
        assert_eq!(quarantine.all(), [finding("a", 2, 1), finding("a", 3, 5), finding("b", 1, 1)]);
    }

    #[test]
    fn a_task_of_another_client_is_found_by_its_text_and_by_its_number() {
        let quarantine = Quarantine::default();
        quarantine.add(Quarantined { id: "task-001".to_owned(), ..finding("a", 1, 1) });
        let (namespace, number) = (Namespace::try_from("a").unwrap(), TaskId::of_text("task-001"));
        for text in ["task-001".to_owned(), number.to_string()] {
            let found = quarantine.get(&namespace, RecordKind::Task, &text);
            assert_eq!(found.map(|found| found.id).as_deref(), Some("task-001"));
        }
        assert_eq!(quarantine.task_ids(&namespace), [number]);
        assert!(quarantine.remove(&namespace, RecordKind::Task, &number.to_string()));
    }

    #[test]
    fn a_full_list_takes_no_more() {
        let quarantine = Quarantine::default();
        (0..=QUARANTINE_MAX as u32).for_each(|id| quarantine.add(finding("a", id, 1)));
        assert_eq!(quarantine.all().len(), QUARANTINE_MAX);
    }
}
