//! What a leader reads: due tasks to assign, in the order of G7, and the tasks that are assigned to a worker.

use crate::id::TaskId;
use crate::name::{Namespace, WorkerId};
use crate::ports::AssignableRequest;
use crate::queue::index::pick::is_current;
use crate::queue::index::{Index, LeaseFilter};
use crate::task::{DispatchFilter, TaskState};

impl Index {
    /// The due tasks of a request. It is a read: nothing leaves its lane.
    pub fn assignable(&self, request: &AssignableRequest) -> Vec<TaskId> {
        let filter = LeaseFilter {
            namespace: &request.namespace,
            queues: &request.queues,
            types: request.types.as_deref(),
            fragile: true,
            dispatch: DispatchFilter::Assigned,
        };
        let max = request.max as usize;
        let mut found = Vec::new();
        for (turn, name) in request.queues.iter().enumerate() {
            let Some(number) = self.queues.number(&request.namespace, name) else { continue };
            let queue = self.queues.get(number);
            if request.queues[..turn].contains(name) || !queue.facts().is_open() {
                continue;
            }
            let mut of_queue = Vec::new();
            for (key, lane) in queue.lanes.list() {
                if let (true, Some(kind)) =
                    (filter.matches(*key, &self.kinds, queue.settings), self.kinds.find(key.kind))
                {
                    let current = |entry| is_current(&self.entries, &self.gates, &queue.namespace, entry);
                    let entries = lane.first_entries(max, current).into_iter();
                    of_queue.extend(entries.map(|entry| (kind.priority, entry)));
                }
            }
            of_queue.sort_unstable();
            let limit = queue.settings.max_running.map_or(u64::MAX, u64::from);
            let room = usize::try_from(limit.saturating_sub(queue.occupied)).unwrap_or(usize::MAX);
            of_queue.truncate(room.min(max));
            found.extend(of_queue);
        }
        found.sort_unstable();
        found.truncate(max);
        found.into_iter().map(|(_, entry)| entry.id).collect()
    }

    /// The tasks that are assigned to a worker, which has not started them, by id.
    pub fn assigned_to(&self, namespace: &Namespace, worker: &WorkerId) -> impl Iterator<Item = TaskId> {
        let key = |id| (namespace.clone(), worker.clone(), TaskId(id));
        self.assigned.range(key(0)..=key(u64::MAX)).map(|(.., id)| *id)
    }

    /// The tasks of a namespace that any worker has, between two ids, by id: those of one worker are found
    /// among them. A view by worker would cost every lease; few tasks run at once.
    pub fn held(&self, namespace: &Namespace, from: TaskId, to: TaskId) -> Vec<TaskId> {
        let in_state = |state| self.in_state(namespace, state, from, to);
        let mut held: Vec<_> = in_state(TaskState::Assigned).chain(in_state(TaskState::Running)).collect();
        held.sort_unstable();
        held
    }

    /// The assigned and the orphaned tasks of every namespace, by id. Few tasks are either.
    pub fn assigned_or_orphaned(&self) -> impl Iterator<Item = TaskId> {
        let in_state = |state| self.entries.in_state(state, TaskId(0), TaskId(u64::MAX)).map(|(id, _)| id);
        in_state(TaskState::Assigned).chain(in_state(TaskState::Orphaned))
    }
}
