//! Chooses the tasks to claim: in order (G7), within the queues' concurrency limits and the caller's slots.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use weaver_core::admission::fits_slots;
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::lease::LeaseRequest;
use weaver_core::name::QueueName;

use crate::gate::Gate;
use crate::overlay::Ready;
use crate::ports::ready::{CLAIM_WINDOW, Due, DueSearch, Source, sources};
use crate::store::DynamoStore;

/// How long claims are chosen at random after a lost race.
const CONTENDED_FOR: Duration = Duration::from_secs(5);

/// A task to claim, with the state that its claim is conditional on.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) ready: Ready,
    pub(super) queue: QueueName,
    pub(super) gate: Option<Gate>,
    pub(super) is_limited: bool,
}

impl DynamoStore {
    /// Chooses tasks to claim: from the head without contention, at random within the claim window with it.
    pub(super) async fn choose(
        &self,
        request: &LeaseRequest,
        max: usize,
        slots: u32,
        tried: &HashSet<TaskKey>,
    ) -> Result<Vec<Claim>> {
        let namespace = &request.namespace;
        let states = self.queue_states(namespace, &request.queues).await?;
        let rooms = sources(namespace, &request.queues, &states, request.dispatch());
        let now = self.clock.monotonic();
        let contended = self.lost_race_at.lock().is_some_and(|at| at.saturating_add(CONTENDED_FOR) > now);
        let types = request.types.as_deref();
        let search = DueSearch {
            namespace,
            types,
            max: if contended { max.max(CLAIM_WINDOW) } else { max },
            slots,
            except: tried,
            now: self.now(),
        };
        let Due { mut tasks, mut gates, .. } = self.due_in(&search, &rooms).await?;
        let picked = pick(&tasks, &rooms, &search);
        if !contended && picked.len() < max && picked.len() < tasks.len() && rooms.len() > 1 {
            // Fragile tasks of one queue used up the slots, so that those of another were skipped; plain
            // tasks may wait behind them.
            let plain = self.due_in(&DueSearch { slots: 0, ..search }, &rooms).await?;
            tasks.extend(plain.tasks.into_iter().filter(|ready| !ready.is_fragile));
            gates.extend(plain.gates);
            tasks.sort_by(|one, other| one.sort.cmp(&other.sort));
            tasks.dedup_by(|one, other| one.key == other.key);
        }
        let mut tasks = pick(&tasks, &rooms, &search);
        if contended {
            shuffle(&mut tasks);
            tasks.truncate(max);
        }
        let claim = |ready: Ready| {
            let source = source_of(&ready, &rooms)?;
            let gate = ready.serial_key.as_ref().and_then(|key| gates.get(key)).cloned();
            Some(Claim {
                queue: source.queue.clone(),
                is_limited: source.facts.settings.max_running.is_some(),
                gate,
                ready,
            })
        };
        Ok(tasks.into_iter().filter_map(claim).collect())
    }
}

/// Where a task waits.
fn source_of<'a>(ready: &Ready, sources: &'a [Source]) -> Option<&'a Source> {
    sources.iter().find(|source| source.partition == ready.partition)
}

/// The tasks that may be claimed together: at most `max`, within each queue's limit, and at most as many
/// fragile ones as there are slots.
pub(super) fn pick(tasks: &[Ready], sources: &[Source], search: &DueSearch<'_>) -> Vec<Ready> {
    let (mut picked, mut slots) = (Vec::new(), search.slots);
    let mut taken: HashMap<&QueueName, u64> = HashMap::new();
    for ready in tasks {
        let Some(source) = source_of(ready, sources) else { continue };
        let taken = taken.entry(&source.queue).or_default();
        let is_full = source.facts.with_more(*taken).is_full();
        if picked.len() == search.max || is_full || !fits_slots(ready.is_fragile, slots) {
            continue;
        }
        *taken += 1;
        slots = slots.saturating_sub(u32::from(ready.is_fragile));
        picked.push(ready.clone());
    }
    picked
}

/// Fisher–Yates, with fresh random bits.
fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let other = (crate::db::random_bits() % (last as u128 + 1)) as usize;
        items.swap(last, other);
    }
}
