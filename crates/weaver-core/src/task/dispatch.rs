//! Who chooses the worker that runs a task.

use serde::{Deserialize, Serialize};

use crate::admission;

/// How tasks reach workers. A task's own dispatch, if it has one, precedes its queue's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// Workers lease them from their queue.
    #[default]
    Pull,
    /// The leader of the cluster assigns them to workers (seed 004).
    Assign,
}

impl Dispatch {
    /// Both, in the order of their codes.
    pub const ALL: [Self; 2] = [Self::Pull, Self::Assign];

    /// The word for it in JSON and storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Assign => "assign",
        }
    }

    /// The dispatch of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dispatch| dispatch.as_str() == word)
    }

    /// Its number in storage. 0 stands for none.
    pub const fn number(self) -> u8 {
        match self {
            Self::Pull => 1,
            Self::Assign => 2,
        }
    }

    /// The dispatch of this number; `None` for 0, and for others.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|dispatch| dispatch.number() == number)
    }
}

/// Of which dispatch a caller wants tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DispatchFilter {
    /// A worker: tasks that are pulled.
    #[default]
    Pulled,
    /// A leader: tasks that it assigns.
    Assigned,
    /// A worker without a leader, where the settings let it pull what no leader assigns.
    Any,
}

impl DispatchFilter {
    /// Whether a task with this dispatch of its own, in a queue with that one, is wanted.
    pub fn admits(self, own: Option<Dispatch>, queue: Dispatch) -> bool {
        admission::has_dispatch(own.map_or(0, Dispatch::number), queue.number(), self.number())
    }

    /// The number of the wanted dispatch; 0: any.
    pub const fn number(self) -> u8 {
        match self {
            Self::Any => 0,
            Self::Pulled => Dispatch::Pull.number(),
            Self::Assigned => Dispatch::Assign.number(),
        }
    }

    /// The dispatches of their own that wanted tasks of a queue have; `None` stands for tasks without one.
    /// Stores that keep tasks apart by it read these parts.
    pub fn parts(self, queue: Dispatch) -> impl Iterator<Item = Option<Dispatch>> {
        let all = [None, Some(Dispatch::Pull), Some(Dispatch::Assign)];
        all.into_iter().filter(move |own| self.admits(*own, queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dispatch_of_a_task_precedes_that_of_its_queue() {
        for queue in Dispatch::ALL {
            for own in Dispatch::ALL {
                let pulled = DispatchFilter::Pulled.admits(Some(own), queue);
                assert_eq!(pulled, own == Dispatch::Pull, "{own:?} in {queue:?}");
            }
            assert_eq!(DispatchFilter::Pulled.admits(None, queue), queue == Dispatch::Pull);
            assert_eq!(DispatchFilter::Assigned.admits(None, queue), queue == Dispatch::Assign);
        }
    }

    #[test]
    fn every_task_is_either_pulled_or_assigned() {
        for queue in Dispatch::ALL {
            let parts = |filter: DispatchFilter| filter.parts(queue).collect::<Vec<_>>();
            assert_eq!(parts(DispatchFilter::Any).len(), 3);
            let mut both = parts(DispatchFilter::Pulled);
            both.extend(parts(DispatchFilter::Assigned));
            assert_eq!(both.len(), 3);
            assert!(parts(DispatchFilter::Any).iter().all(|part| both.contains(part)));
        }
    }

    #[test]
    fn a_dispatch_is_found_by_the_word_that_serde_writes() {
        for dispatch in Dispatch::ALL {
            assert_eq!(serde_json::to_value(dispatch).unwrap(), dispatch.as_str());
            assert_eq!(Dispatch::from_word(dispatch.as_str()), Some(dispatch));
        }
    }
}
