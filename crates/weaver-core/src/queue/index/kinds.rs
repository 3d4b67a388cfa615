//! Types and priorities by number: an entry holds four bytes instead of a name, and lanes compare numbers.
//! Users invent types without limit, so a kind is forgotten with its last task.

use hashbrown::HashMap;

use crate::name::TaskType;
use crate::task::{Dispatch, Priority, TaskSpec};

/// The type, the priority and the dispatch of a task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub(super) task_type: TaskType,
    pub(super) priority: Priority,
    /// Its own; `None`: as its queue says.
    pub(super) dispatch: Option<Dispatch>,
}

#[derive(Debug, Default)]
pub(super) struct Kinds {
    // Each with its number of tasks.
    list: Vec<Option<(Kind, u64)>>,
    free: Vec<u32>,
    numbers: HashMap<TaskType, Vec<u32>>,
    /// The one last used: tasks of one kind often follow each other.
    last: u32,
}

impl Kinds {
    /// A kind, unless no task is left of it.
    pub(super) fn find(&self, number: u32) -> Option<&Kind> {
        self.list.get(number as usize)?.as_ref().map(|(kind, _)| kind)
    }

    /// Counts one more task of a kind; returns the kind's number.
    pub(super) fn enter(&mut self, spec: &TaskSpec) -> u32 {
        let (task_type, priority) = (&spec.envelope.task_type, spec.priority);
        let dispatch = spec.dispatch();
        let is_it = |list: &[Option<(Kind, u64)>], number: u32| {
            let kind = list.get(number as usize).and_then(Option::as_ref);
            kind.is_some_and(|(kind, _)| {
                kind.priority == priority && kind.dispatch == dispatch && kind.task_type == *task_type
            })
        };
        if !is_it(&self.list, self.last) {
            let known = self.numbers.get(task_type).into_iter().flatten();
            let known = known.copied().find(|number| is_it(&self.list, *number));
            let number =
                known.unwrap_or_else(|| self.add(Kind { task_type: task_type.clone(), priority, dispatch }));
            let before = std::mem::replace(&mut self.last, number);
            if before != number {
                self.forget_if_unused(before);
            }
        }
        if let Some((_, count)) = &mut self.list[self.last as usize] {
            *count += 1;
        }
        self.last
    }

    /// Counts one task of a kind less.
    pub(super) fn leave(&mut self, number: u32) {
        if let Some((_, count)) = &mut self.list[number as usize] {
            *count -= 1;
        }
        // The last one used stays: a queue that is emptied as fast as it is filled would forget it every
        // time.
        if number != self.last {
            self.forget_if_unused(number);
        }
    }

    fn forget_if_unused(&mut self, number: u32) {
        let unused = |kind: &mut (Kind, u64)| kind.1 == 0;
        let Some((kind, _)) = self.list.get_mut(number as usize).and_then(|kind| kind.take_if(unused)) else {
            return;
        };
        self.free.push(number);
        if let Some(numbers) = self.numbers.get_mut(&kind.task_type) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.numbers.remove(&kind.task_type);
            }
        }
    }

    fn add(&mut self, kind: Kind) -> u32 {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.list.push(None);
                u32::try_from(self.list.len() - 1).expect("fewer than four thousand million kinds")
            }
        };
        self.numbers.entry_ref(&kind.task_type).or_default().push(number);
        self.list[number as usize] = Some((kind, 0));
        number
    }
}
