//! Final inspection of a store: its contents, whether they are consistent, and whether all tasks can be
//! finished.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::ManualClock;
use weaver_core::error::Result;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LEASE_BATCH_MAX, LeaseRequest};
use weaver_core::lifecycle::{Command, OverdueReason, decide};
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{
    Admin, Documents, Journal, Order, ReadFrom, Scope, Selector, Seq, StateCounts, TaskQuery, Tasks,
};
use weaver_core::queue::{Committed, Queue, QueueExt};
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;
use weaver_embedded::EmbeddedStore;

use crate::checker::Violation;
use crate::client::{DOCUMENTS, STREAMS, document_key, lease_request, stream_key, text};
use crate::wire::{Line, Snapshot};

/// Longer than any lease or delay of a child.
const LONG: Duration = Duration::from_secs(3600);

/// Every record, oldest first.
pub(crate) async fn records(store: &EmbeddedStore) -> Result<Vec<Snapshot>> {
    selected(store, Selector::All).await
}

async fn selected(store: &EmbeddedStore, selector: Selector) -> Result<Vec<Snapshot>> {
    let query = TaskQuery::new(Namespace::default()).select(selector);
    let mut query = TaskQuery { order: Order::OldestFirst, limit: PAGE_MAX, ..query };
    let mut snapshots = Vec::new();
    loop {
        let page = store.list_tasks(query.clone()).await?;
        snapshots.extend(page.items.iter().map(Snapshot::of));
        query.cursor = page.next;
        if query.cursor.is_none() {
            return Ok(snapshots);
        }
    }
}

/// The contents of the store as lines, and the violations found by the inspection itself.
pub(crate) async fn inspect(directory: &Path, now: i64) -> Result<(Vec<Line>, Vec<Violation>), String> {
    let clock = ManualClock::new(Timestamp::from_micros(now));
    let open = || EmbeddedStore::open(directory, Arc::new(clock.clone())).map_err(|error| error.to_string());
    let said = |error: weaver_core::error::Error| error.to_string();
    let store = open()?;
    let before = records(&store).await.map_err(said)?;
    let lines = everything(&store, &before).await.map_err(said)?;
    let rest = async {
        let mut found = disagreements(&store, &before).await.map_err(said)?;
        found.extend(work_off(&store, &clock, &before).await.map_err(said)?);
        drop(store);
        let store = open()?;
        let after = records(&store).await.map_err(said)?;
        found.extend(disagreements(&store, &after).await.map_err(said)?);
        found.extend(changed_after_end(&before, &after));
        Ok(found)
    };
    // Report what was found so far rather than an error that follows from it.
    let found = rest.await.unwrap_or_else(|error: String| vec![Violation::of("G3", error)]);
    Ok((lines, found))
}

async fn everything(store: &EmbeddedStore, records: &[Snapshot]) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = records.iter().cloned().map(Line::Saw).collect();
    lines.push(Line::SawAll(records.len()));
    for number in 0..DOCUMENTS {
        let id = format!("document{number}");
        let found = store.get_document(&document_key(&id)).await?;
        let found = found.map(|found| (found.version.0, text(&found.body)));
        lines.push(Line::SawDocument { id, found });
    }
    for number in 0..STREAMS {
        let stream = format!("stream{number}");
        let mut entries: Vec<(u64, String)> = Vec::new();
        loop {
            let after = Seq(entries.last().map_or(0, |(seq, _)| *seq));
            let page = store.read_entries(&stream_key(&stream), ReadFrom::After(after), PAGE_MAX).await?;
            entries.extend(page.entries.iter().map(|entry| (entry.seq.0, text(&entry.body))));
            if !page.more {
                break;
            }
        }
        lines.push(Line::SawStream { stream, entries });
    }
    Ok(lines)
}

/// Counts, slots, groups and lists that do not match the records (G5).
async fn disagreements(store: &EmbeddedStore, records: &[Snapshot]) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    let mut hold = |kept: bool, what: String| {
        if !kept {
            found.push(Violation::of("G5", what));
        }
    };
    let namespace = Namespace::default();
    let all = store.counts(Scope::Namespace(namespace.clone())).await?.values;
    hold(all == tally(records, |_| true), format!("the namespace's counts are {all:?}"));
    for queue in store.list_queues(&namespace).await? {
        let name = queue.name.as_str().to_owned();
        let counts = store.counts(Scope::Queue(namespace.clone(), QueueName::new(name.clone())?)).await?;
        let expected = tally(records, |snapshot| snapshot.queue == name);
        hold(counts.values == expected, format!("the counts of queue {name} are {:?}", counts.values));
        let occupied =
            records.iter().filter(|snapshot| snapshot.queue == name && snapshot.token.is_some()).count();
        let slots = format!("queue {name} has {} slots taken, not {occupied}", queue.occupied);
        hold(queue.occupied == occupied as u64, slots);
    }
    for group in store.list_groups(&namespace, None, PAGE_MAX).await?.items {
        let name = group.id.as_str();
        let expected = tally(records, |snapshot| snapshot.group.as_deref() == Some(name));
        hold(group.counts == expected, format!("the counts of {name} are {:?}", group.counts));
    }
    for state in TaskState::ALL {
        let listed: BTreeSet<u64> =
            selected(store, Selector::State(state)).await?.iter().map(|snapshot| snapshot.id).collect();
        let expected: BTreeSet<u64> =
            records.iter().filter(|snapshot| snapshot.state == state).map(|snapshot| snapshot.id).collect();
        hold(listed == expected, format!("{listed:?} are listed as {state}, and {expected:?} are"));
    }
    Ok(found)
}

fn tally(records: &[Snapshot], counted: impl Fn(&Snapshot) -> bool) -> StateCounts {
    let mut counts = StateCounts::default();
    records.iter().filter(|snapshot| counted(snapshot)).for_each(|snapshot| counts.add(snapshot.state));
    counts
}

/// Expires the leases of dead children and runs all remaining tasks (G3).
async fn work_off(store: &EmbeddedStore, clock: &ManualClock, before: &[Snapshot]) -> Result<Vec<Violation>> {
    let mut found = take_away(store, clock, before).await?;
    for turn in 0_u128.. {
        clock.advance(LONG);
        // No child has a token as large as this.
        let request = lease_request(LeaseToken(u128::MAX - turn));
        let (max, slots, ttl) = (LEASE_BATCH_MAX, LEASE_BATCH_MAX, 2 * LONG);
        let granted = store.lease(LeaseRequest { max, slots, ttl, ..request }).await?;
        if granted.is_empty() {
            break;
        }
        let ends = granted.iter().map(|leased| {
            let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
            decide(&leased.record, command, leased.record.updated_at).expect("what was granted can be ended")
        });
        for (leased, answer) in granted.iter().zip(store.commit(ends.collect(), None).await?) {
            if !matches!(answer, Committed::Applied { .. }) {
                found.push(Violation::of("G3", format!("{}: its end is {answer:?}", leased.lease.key)));
            }
        }
    }
    let left = records(store).await?.into_iter();
    for snapshot in left.filter(|snapshot| !snapshot.state.is_terminal() || snapshot.token.is_some()) {
        found.push(Violation::of("G3", format!("no worker can lease {snapshot:?}")));
    }
    Ok(found)
}

/// Every leased or held task is overdue once its lease has expired, and no other is.
async fn take_away(
    store: &EmbeddedStore,
    clock: &ManualClock,
    before: &[Snapshot],
) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    clock.advance(LONG);
    let held: BTreeSet<u64> =
        before.iter().filter(|snapshot| snapshot.token.is_some()).map(|snapshot| snapshot.id).collect();
    let overdue = store.overdue(PAGE_MAX).await?;
    let overdue_ids: BTreeSet<u64> = overdue.iter().map(|item| item.record.key.id.0).collect();
    if overdue_ids != held {
        let what = format!("{held:?} were held by children that are dead, and {overdue_ids:?} are overdue");
        found.push(Violation::of("G3", what));
    }
    for item in overdue {
        match (item.reason, item.record.hold()) {
            (OverdueReason::Hold, Some(hold)) => store.confirm_stopped(vec![hold]).await?,
            (why, _) => match decide(&item.record, Command::Expire(why), item.record.updated_at) {
                Ok(transition) => store.make(transition).await?,
                Err(refused) => found.push(Violation::of("G3", format!("{}: {refused}", item.record.key))),
            },
        }
    }
    let still = store.overdue(PAGE_MAX).await?;
    if let Some(item) = still.first() {
        found.push(Violation::of("G3", format!("{} stays overdue", item.record.key)));
    }
    Ok(found)
}

/// Finished tasks that changed (G4).
fn changed_after_end(before: &[Snapshot], after: &[Snapshot]) -> Vec<Violation> {
    let after: BTreeMap<u64, &Snapshot> = after.iter().map(|snapshot| (snapshot.id, snapshot)).collect();
    let ended = before.iter().filter(|snapshot| snapshot.state.is_terminal());
    let changed = ended.filter(|snapshot| {
        let unheld = Snapshot { token: None, ..(*snapshot).clone() };
        after.get(&snapshot.id) != Some(&&unheld)
    });
    changed.map(|snapshot| Violation::of("G4", format!("{snapshot:?} is not as it ended"))).collect()
}
