//! Which worker gets which due task. Pure: the leader reads workers and tasks, and writes what is placed.

use std::collections::HashMap;
use std::time::Duration;

use crate::lease::LEASE_BATCH_MAX;
use crate::name::{Namespace, QueueName, TaskType, WorkerId};
use crate::ports::AssignableRequest;
use crate::task::TaskRecord;

/// A live worker that takes tasks, as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRoom {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its id.
    pub worker: WorkerId,
    /// The queues it serves.
    pub queues: Vec<QueueName>,
    /// The types it serves; `None`: any.
    pub types: Option<Vec<TaskType>>,
    /// Tasks that it runs or that are assigned to it.
    pub held: u32,
    /// The most it may have held.
    pub room_for: u32,
    /// How long ago it was heard.
    pub silent_for: Duration,
    /// It is a worker of the node that leads: it is given a task only if no other worker serves it, so that
    /// the leader is free to lead.
    pub is_leaders_own: bool,
}

impl WorkerRoom {
    fn serves(&self, task: &TaskRecord) -> bool {
        self.namespace == task.key.namespace
            && self.queues.contains(&task.spec.queue)
            && self.types.as_ref().is_none_or(|types| types.contains(&task.spec.envelope.task_type))
    }

    /// How many further tasks it may be given.
    pub fn free(&self) -> u32 {
        self.room_for.saturating_sub(self.held)
    }
}

/// What a worker serves: namespace, queues and types.
type Service<'a> = (&'a Namespace, &'a [QueueName], Option<&'a [TaskType]>);

/// What the leader asks the store for: one request for all workers that serve the same queues and types, at
/// most as many tasks as they have room for.
pub fn requests(workers: &[WorkerRoom]) -> Vec<AssignableRequest> {
    let mut found: Vec<AssignableRequest> = Vec::new();
    let mut by_service: HashMap<Service<'_>, usize> = HashMap::new();
    for worker in workers.iter().filter(|worker| worker.free() > 0) {
        let service = (&worker.namespace, worker.queues.as_slice(), worker.types.as_deref());
        let number = *by_service.entry(service).or_insert_with(|| {
            found.push(AssignableRequest {
                namespace: worker.namespace.clone(),
                queues: worker.queues.clone(),
                types: worker.types.clone(),
                max: 0,
            });
            found.len() - 1
        });
        let request = &mut found[number];
        request.max = request.max.saturating_add(worker.free()).min(LEASE_BATCH_MAX);
    }
    found
}

/// Chooses a worker for each task, in the order of the tasks: of those that serve it and have room the one
/// with the fewest tasks held, then the one that was heard last. The worker from which a task was just
/// taken gets it only if no other worker serves it. `None`: it waits.
pub fn place<'a>(
    workers: &mut [WorkerRoom],
    tasks: impl IntoIterator<Item = (&'a TaskRecord, Option<&'a WorkerId>)>,
) -> Vec<Option<WorkerId>> {
    let place_one = |(task, taken_from): (&TaskRecord, Option<&WorkerId>)| {
        // The lower, the better; a worker of a worse class is not chosen while a better one serves the task.
        let class = |worker: &WorkerRoom| (Some(&worker.worker) == taken_from, worker.is_leaders_own);
        let best = workers.iter().filter(|worker| worker.serves(task)).map(class).min();
        let fits = |worker: &&mut WorkerRoom| {
            worker.free() > 0 && worker.serves(task) && Some(class(worker)) == best
        };
        let chosen = workers
            .iter_mut()
            .filter(fits)
            .min_by_key(|worker| (worker.held, worker.silent_for, worker.worker.clone()))?;
        chosen.held += 1;
        Some(chosen.worker.clone())
    };
    tasks.into_iter().map(place_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TaskId;
    use crate::lifecycle::admit;
    use crate::task::NewTask;
    use crate::time::Timestamp;

    fn task(id: u64, queue: &str, task_type: &str) -> TaskRecord {
        let new = NewTask::new(task_type.to_owned()).queue(queue.to_owned());
        let valid = new.validate(&crate::limits::Limits::default()).unwrap();
        admit(valid, TaskId(id), Timestamp::MIN).unwrap()
    }

    fn worker(id: &str, queues: &[&str], held: u32) -> WorkerRoom {
        WorkerRoom {
            namespace: Namespace::default(),
            worker: WorkerId::try_from(id).unwrap(),
            queues: queues.iter().map(|name| QueueName::try_from(*name).unwrap()).collect(),
            types: None,
            held,
            room_for: 4,
            silent_for: Duration::ZERO,
            is_leaders_own: false,
        }
    }

    fn placed(workers: &mut [WorkerRoom], tasks: &[TaskRecord]) -> Vec<Option<String>> {
        let places = place(workers, tasks.iter().map(|task| (task, None)));
        places.into_iter().map(|place| place.map(|worker| worker.to_string())).collect()
    }

    #[test]
    fn the_worker_with_the_fewest_tasks_held_gets_the_next_one() {
        let mut workers = [worker("w1", &["q"], 2), worker("w2", &["q"], 0)];
        let tasks: Vec<_> = (1..=4).map(|id| task(id, "q", "t")).collect();
        let some = |id: &str| Some(id.to_owned());
        assert_eq!(placed(&mut workers, &tasks), [some("w2"), some("w2"), some("w1"), some("w2")]);
    }

    #[test]
    fn of_two_with_as_many_the_one_that_was_heard_last_gets_it() {
        let mut workers = [worker("w1", &["q"], 0), worker("w2", &["q"], 0)];
        workers[0].silent_for = Duration::from_millis(900);
        assert_eq!(placed(&mut workers, &[task(1, "q", "t")]), [Some("w2".to_owned())]);
    }

    #[test]
    fn a_task_waits_when_every_worker_that_serves_it_is_full() {
        let mut workers = [worker("w1", &["q"], 4), worker("w2", &["other"], 0)];
        assert_eq!(placed(&mut workers, &[task(1, "q", "t")]), [None]);
        workers[1].queues = workers[0].queues.clone();
        workers[1].types = Some(vec![TaskType::new("u").unwrap()]);
        assert_eq!(placed(&mut workers, &[task(1, "q", "t")]), [None]);
    }

    #[test]
    fn a_task_does_not_go_back_to_the_worker_it_was_taken_from_while_another_serves_it() {
        let waiting = task(1, "q", "t");
        let from = WorkerId::new("w1").unwrap();
        let mut workers = [worker("w1", &["q"], 0), worker("w2", &["q"], 3)];
        let to = place(&mut workers, [(&waiting, Some(&from))]);
        assert_eq!(to, [Some(WorkerId::new("w2").unwrap())]);
        // The other one is full now: it waits for it.
        assert_eq!(place(&mut workers, [(&waiting, Some(&from))]), [None]);
        assert_eq!(place(&mut workers[..1], [(&waiting, Some(&from))]), [Some(from.clone())]);
    }

    #[test]
    fn a_worker_of_the_leading_node_gets_a_task_only_if_no_other_serves_it() {
        let mut workers = [worker("w1", &["q"], 0), worker("w2", &["q"], 3)];
        workers[0].is_leaders_own = true;
        let tasks = [task(1, "q", "t"), task(2, "q", "t")];
        assert_eq!(placed(&mut workers, &tasks), [Some("w2".to_owned()), None]);
        assert_eq!(placed(&mut workers[..1], &tasks[..1]), [Some("w1".to_owned())]);
    }

    #[test]
    fn workers_of_the_same_queues_and_types_share_a_request() {
        let workers = [worker("w1", &["q"], 1), worker("w2", &["q"], 4), worker("w3", &["q"], 0)];
        let asked = requests(&workers);
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].max, 7);
        assert_eq!(requests(&[worker("w4", &["q"], 4)]), []);
    }
}
