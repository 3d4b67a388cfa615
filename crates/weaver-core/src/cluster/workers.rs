//! What an observer has seen of the workers. Silence is measured by its own monotonic clock, from when it saw
//! the last heartbeat: a new leader declares no worker silent before it has watched it for that long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cluster::settings::UNSTARTED_MAX;
use crate::cluster::{ClusterSettings, Fitness, WorkerRoom, fitness};
use crate::id::TaskId;
use crate::name::{Namespace, WorkerId};
use crate::ports::{RunnerKey, RunnerRecord};
use crate::task::{TaskRecord, TaskState};
use crate::time::{Monotonic, Timestamp};

/// A worker as the leader knows it.
#[derive(Debug, Clone)]
struct Watched {
    record: RunnerRecord,
    /// When its heartbeat changed last.
    changed_at: Monotonic,
    /// Whether the leader saw it change at all: a stored heartbeat may be a day old.
    was_heard: bool,
    /// Tasks that it has started since its last heartbeat, which does not count them.
    started: u32,
    /// What is assigned to it.
    assigned: BTreeSet<TaskId>,
    /// Assignments in a row that it did not start.
    unstarted: u32,
}

impl Watched {
    fn silent_for(&self, now: Monotonic) -> Duration {
        now.since(self.changed_at)
    }

    /// Whether it was heard lately: by the leader, or by the store's clock just before its term.
    fn is_heard(&self, wall: Timestamp) -> bool {
        self.was_heard || wall.since(self.record.last_heartbeat) < self.record.beat.expires_after()
    }
}

/// All workers of all namespaces.
#[derive(Debug, Clone, Default)]
pub struct Workers {
    known: BTreeMap<RunnerKey, Watched>,
}

impl Workers {
    /// Takes the listed workers of all namespaces into account; forgets others, but not those of namespaces
    /// that could not be read.
    pub fn listed(&mut self, listed: Vec<RunnerRecord>, unread: &[Namespace], now: Monotonic) {
        let keys: BTreeSet<RunnerKey> = listed.iter().map(|record| record.beat.key.clone()).collect();
        self.known.retain(|key, _| keys.contains(key) || unread.contains(&key.namespace));
        for record in listed {
            let key = record.beat.key.clone();
            match self.known.get_mut(&key) {
                None => {
                    let watched = Watched {
                        record,
                        changed_at: now,
                        was_heard: false,
                        started: 0,
                        assigned: BTreeSet::new(),
                        unstarted: 0,
                    };
                    self.known.insert(key, watched);
                }
                Some(watched) => watched.heard(record, now),
            }
        }
    }

    /// Takes the assigned tasks into account: those that are gone from the list were started, or ended.
    pub fn assigned(&mut self, assigned: &[TaskRecord]) {
        for (key, watched) in &mut self.known {
            let its = assigned.iter().filter(|record| {
                record.key.namespace == key.namespace && record.holder() == Some(&key.runner_id)
            });
            let now: BTreeSet<TaskId> = its.map(|record| record.key.id).collect();
            let gone = watched.assigned.difference(&now).count();
            if gone > 0 {
                watched.started = watched.started.saturating_add(u32::try_from(gone).unwrap_or(u32::MAX));
                // It starts what it is given.
                watched.unstarted = 0;
            }
            watched.assigned = now;
        }
    }

    /// The leader assigned a task to a worker.
    pub fn given(&mut self, key: &RunnerKey, task: TaskId) {
        if let Some(watched) = self.known.get_mut(key) {
            watched.assigned.insert(task);
        }
    }

    /// The leader took a task from a worker, which has not started it.
    pub fn taken(&mut self, key: &RunnerKey, task: TaskId) {
        if let Some(watched) = self.known.get_mut(key) {
            watched.assigned.remove(&task);
            watched.unstarted = watched.unstarted.saturating_add(1);
        }
    }

    /// What a worker may be given.
    pub fn fitness(&self, key: &RunnerKey, now: Monotonic) -> Fitness {
        let watched = self.known.get(key);
        let silent_for = watched.map_or(Duration::ZERO, |watched| watched.silent_for(now));
        fitness(watched.map(|watched| &watched.record), silent_for)
    }

    /// The workers that may be given tasks, with their room.
    pub fn rooms(
        &self,
        settings: &ClusterSettings,
        own: &BTreeSet<WorkerId>,
        (now, wall): (Monotonic, Timestamp),
    ) -> Vec<WorkerRoom> {
        let is_fit = |watched: &&Watched| {
            fitness(Some(&watched.record), watched.silent_for(now)) == Fitness::Available
                && watched.is_heard(wall)
                && watched.unstarted < UNSTARTED_MAX
        };
        let room = |watched: &Watched| {
            let beat = &watched.record.beat;
            let assigned = u32::try_from(watched.assigned.len()).unwrap_or(u32::MAX);
            WorkerRoom {
                namespace: beat.key.namespace.clone(),
                worker: beat.key.runner_id.clone(),
                queues: beat.queues.clone(),
                types: beat.types.clone(),
                held: beat.running.saturating_add(assigned).saturating_add(watched.started),
                room_for: settings.max_tasks_per_worker.unwrap_or(u32::MAX).min(beat.capacity),
                silent_for: watched.silent_for(now),
                is_leaders_own: own.contains(&beat.key.runner_id),
            }
        };
        self.known.values().filter(is_fit).map(room).collect()
    }
}

impl Watched {
    fn heard(&mut self, record: RunnerRecord, now: Monotonic) {
        if record.beat.started_at != self.record.beat.started_at {
            // Another process under the same name.
            self.unstarted = 0;
        }
        if record.last_heartbeat != self.record.last_heartbeat {
            (self.changed_at, self.was_heard, self.started) = (now, true, 0);
        }
        self.record = record;
    }
}

/// The worker to which a task is assigned.
pub fn worker_of(record: &TaskRecord) -> Option<RunnerKey> {
    let given = record.assignment.as_ref().filter(|_| record.state == TaskState::Assigned)?;
    Some(RunnerKey { namespace: record.key.namespace.clone(), runner_id: given.worker.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::OrphanCause;
    use crate::ports::{Beat, Directive, RunnerStatus};

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Monotonic {
        Monotonic(seconds * SECOND)
    }

    fn wall(seconds: u32) -> Timestamp {
        Timestamp::MIN.saturating_add(seconds * SECOND)
    }

    fn record(last_heartbeat: Timestamp) -> RunnerRecord {
        let key = RunnerKey { namespace: Namespace::default(), runner_id: WorkerId::new("w").unwrap() };
        let beat = Beat {
            key,
            project_root: None,
            started_at: Timestamp::MIN,
            queues: Vec::new(),
            types: None,
            capacity: 4,
            running: 1,
            draining: false,
            every: Some(SECOND),
        };
        RunnerRecord { beat, last_heartbeat, status: RunnerStatus::Running, directive: Directive::Run }
    }

    fn rooms(workers: &Workers, seconds: u32) -> Vec<WorkerRoom> {
        let settings = ClusterSettings::default();
        workers.rooms(&settings, &BTreeSet::new(), (at(seconds), wall(1_000 + seconds)))
    }

    #[test]
    fn an_observer_that_has_just_begun_to_look_declares_no_worker_silent_and_gives_nothing_to_the_dead() {
        let mut workers = Workers::default();
        let dead = record(wall(10));
        workers.listed(vec![dead.clone()], &[], at(0));
        assert_eq!(workers.fitness(&dead.beat.key, at(4)), Fitness::Available);
        assert_eq!(workers.fitness(&dead.beat.key, at(5)), Fitness::Unfit(OrphanCause::Silent));
        assert_eq!(rooms(&workers, 1), []);
        workers.listed(vec![record(wall(1_002))], &[], at(2));
        assert_eq!(rooms(&workers, 3).len(), 1);
    }

    #[test]
    fn what_it_started_since_its_heartbeat_counts_as_held() {
        let mut workers = Workers::default();
        let known = record(wall(1_000));
        let key = known.beat.key.clone();
        workers.listed(vec![known], &[], at(0));
        workers.given(&key, TaskId(1));
        workers.given(&key, TaskId(2));
        assert_eq!(rooms(&workers, 1)[0].held, 3);
        // One of them is no longer assigned: it runs, and the heartbeat is older.
        workers.assigned(&[]);
        assert_eq!(rooms(&workers, 1)[0].held, 3);
        workers.listed(vec![record(wall(1_001))], &[], at(1));
        assert_eq!(rooms(&workers, 2)[0].held, 1);
    }

    #[test]
    fn a_worker_with_three_unstarted_assignments_gets_none_until_it_starts_one() {
        let mut workers = Workers::default();
        let known = record(wall(1_000));
        let key = known.beat.key.clone();
        workers.listed(vec![known], &[], at(0));
        for id in 1..=3 {
            workers.given(&key, TaskId(id));
            workers.taken(&key, TaskId(id));
        }
        assert_eq!(rooms(&workers, 1), []);
        // It starts a task that it was given before.
        workers.given(&key, TaskId(9));
        workers.assigned(&[]);
        assert_eq!(rooms(&workers, 1).len(), 1);
    }
}
