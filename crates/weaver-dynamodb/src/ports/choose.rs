//! Choosing what to claim: in order (G7), as far as each queue has room and the caller has slots.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use weaver_core::admission::{QueueFacts, fits_slots};
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::lease::LeaseRequest;
use weaver_core::name::{Namespace, QueueName};

use crate::gate::Gate;
use crate::keys;
use crate::overlay::Ready;
use crate::ports::ready::{CLAIM_WINDOW, Due, Look};
use crate::store::DynamoStore;

/// After losing a race, choose at random for so long.
const CROWDED_FOR: Duration = Duration::from_secs(5);

/// A task that is to be claimed, with what its claim rests on.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) ready: Ready,
    pub(super) queue: QueueName,
    pub(super) gate: Option<Gate>,
    pub(super) is_limited: bool,
}

impl DynamoStore {
    /// Chooses what to claim: from the head when alone; at random within the claim window when others take
    /// the same.
    pub(super) async fn choose(
        &self,
        request: &LeaseRequest,
        max: usize,
        slots: u32,
        tried: &HashSet<TaskKey>,
    ) -> Result<Vec<Claim>> {
        let namespace = &request.namespace;
        let states = self.queue_states(namespace, &request.queues).await?;
        let mut queues: Vec<QueueName> = request.queues.clone();
        queues.sort();
        queues.dedup();
        queues.retain(|queue| states.get(queue).is_none_or(|state| state.blocked().is_none()));
        let rooms: Vec<_> = queues
            .into_iter()
            .map(|queue| {
                let facts = states.get(&queue).map(|state| state.facts()).unwrap_or_default();
                (queue, facts)
            })
            .collect();
        let now = self.clock.monotonic();
        let crowded = self.lost_race_at.lock().is_some_and(|at| at.saturating_add(CROWDED_FOR) > now);
        let types = request.types.as_deref();
        let look = Look {
            namespace,
            types,
            max: if crowded { max.max(CLAIM_WINDOW) } else { max },
            slots,
            except: tried,
            now: self.now(),
        };
        let Due { mut tasks, mut gates, .. } = self.due_in(&look, &rooms).await?;
        let picked = pick(&tasks, &rooms, namespace, &look);
        if !crowded && picked.len() < max && picked.len() < tasks.len() && rooms.len() > 1 {
            // Fragile ones of one queue took the slots of those of another, behind which more may wait.
            let plain = self.due_in(&Look { slots: 0, ..look }, &rooms).await?;
            tasks.extend(plain.tasks.into_iter().filter(|ready| !ready.is_fragile));
            gates.extend(plain.gates);
            tasks.sort_by(|one, other| one.sort.cmp(&other.sort));
            tasks.dedup_by(|one, other| one.key == other.key);
        }
        let mut tasks = pick(&tasks, &rooms, namespace, &look);
        if crowded {
            shuffle(&mut tasks);
            tasks.truncate(max);
        }
        let claim = |ready: Ready| {
            let queue = queue_of(&ready, &rooms, namespace)?;
            let gate = ready.serial_key.as_ref().and_then(|key| gates.get(key)).copied();
            Some(Claim {
                queue: queue.0.clone(),
                is_limited: queue.1.settings.max_running.is_some(),
                gate,
                ready,
            })
        };
        Ok(tasks.into_iter().filter_map(claim).collect())
    }
}

/// The queue that a task waits in.
fn queue_of<'a>(
    ready: &Ready,
    rooms: &'a [(QueueName, QueueFacts)],
    namespace: &Namespace,
) -> Option<&'a (QueueName, QueueFacts)> {
    rooms.iter().find(|(queue, _)| keys::ready_partition(namespace, queue) == ready.partition)
}

/// Those of an order that may be taken together: as many as were asked for, as each queue has room for, and
/// of the fragile ones as many as there are slots.
fn pick(
    tasks: &[Ready],
    rooms: &[(QueueName, QueueFacts)],
    namespace: &Namespace,
    look: &Look<'_>,
) -> Vec<Ready> {
    let (mut picked, mut slots) = (Vec::new(), look.slots);
    let mut taken: HashMap<&QueueName, u64> = HashMap::new();
    for ready in tasks {
        let Some((queue, facts)) = queue_of(ready, rooms, namespace) else { continue };
        let taken = taken.entry(queue).or_default();
        let is_full = facts.with_more(*taken).is_full();
        if picked.len() == look.max || is_full || !fits_slots(ready.is_fragile, slots) {
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
