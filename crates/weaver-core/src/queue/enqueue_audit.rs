//! The audit entry of an enqueue, which the store writes with the tasks.

use bytes::Bytes;

use crate::error::{Invalid, Result};
use crate::id::TaskId;
use crate::name::Namespace;
use crate::ports::{StreamKey, check_entries};
use crate::queue::Enqueued;

/// What an audit entry of an enqueue says besides its tasks, whose ids only the store knows when it writes
/// it.
///
/// The body of the entry is `before`, then the number of new tasks, the lowest and the highest of their ids,
/// comma-separated, then `after`. There is one entry per namespace and transaction, in the namespace's
/// [audit stream](StreamKey::audit); none where no task is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueAudit {
    /// The body up to the numbers.
    pub before: String,
    /// The body after them.
    pub after: String,
}

impl EnqueueAudit {
    /// Refuses an entry that would be too large. Stores call it before they write.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_entries(&[self.body(usize::MAX, TaskId(u64::MAX), TaskId(u64::MAX))])
    }

    /// The body for so many new tasks, with the lowest and the highest of their ids.
    pub fn body(&self, count: usize, lowest: TaskId, highest: TaskId) -> Bytes {
        let Self { before, after } = self;
        Bytes::from(format!("{before}{count},{},{}{after}", lowest.0, highest.0))
    }

    /// An entry per namespace in which tasks are new, in the order of their first task.
    pub fn entries(&self, answers: &[Result<Enqueued>]) -> Vec<(StreamKey, Bytes)> {
        let mut made: Vec<(&Namespace, usize, TaskId, TaskId)> = Vec::new();
        for enqueued in answers.iter().flatten().filter(|enqueued| !enqueued.existing) {
            let (namespace, id) = (&enqueued.key.namespace, enqueued.key.id);
            match made.iter_mut().find(|(known, ..)| *known == namespace) {
                Some((_, count, lowest, highest)) => {
                    (*count, *lowest, *highest) = (*count + 1, id.min(*lowest), id.max(*highest));
                }
                None => made.push((namespace, 1, id, id)),
            }
        }
        let entry = |(namespace, count, lowest, highest): (&Namespace, usize, TaskId, TaskId)| {
            (StreamKey::audit(namespace.clone()), self.body(count, lowest, highest))
        };
        made.into_iter().map(entry).collect()
    }
}
