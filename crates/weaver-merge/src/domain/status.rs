//! Status of an entry and the allowed transitions (seed 003, 1.1), as a table.

use serde::{Deserialize, Serialize};

/// Status of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waiting in the queue.
    Pending,
    /// Its merge candidate is being built: its exact head merged onto the exact base.
    Updating,
    /// The checks of the candidate run.
    Checking,
    /// Every check passed; the base is about to move.
    Ready,
    /// Final: ejected for a conflict, a failed check, a hook, a push, or an invalid configuration.
    Failed,
    /// Final: removed for another reason.
    Cancelled,
}

/// Kind of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// One step closer to landing.
    Forward,
    /// Back: the candidate is void (base or head moved, base broken), or an error is transient.
    Back,
    /// Removed from the queue without landing.
    Out,
}

/// Every allowed transition. Landing is not one: an entry that landed is removed from the queue.
pub const TABLE: &[(Status, Status, Edge)] = &[
    (Status::Pending, Status::Updating, Edge::Forward),
    (Status::Pending, Status::Checking, Edge::Forward),
    (Status::Pending, Status::Failed, Edge::Out),
    (Status::Pending, Status::Cancelled, Edge::Out),
    (Status::Updating, Status::Checking, Edge::Forward),
    (Status::Updating, Status::Pending, Edge::Back),
    (Status::Updating, Status::Failed, Edge::Out),
    (Status::Updating, Status::Cancelled, Edge::Out),
    (Status::Checking, Status::Ready, Edge::Forward),
    (Status::Checking, Status::Updating, Edge::Back),
    (Status::Checking, Status::Failed, Edge::Out),
    (Status::Checking, Status::Cancelled, Edge::Out),
    (Status::Ready, Status::Updating, Edge::Back),
    (Status::Ready, Status::Failed, Edge::Out),
    (Status::Ready, Status::Cancelled, Edge::Out),
];

impl Status {
    /// Every status, in the order of the enum.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Updating, Self::Checking, Self::Ready, Self::Failed, Self::Cancelled];

    /// The kind of the transition, `None` if it is not allowed.
    pub fn edge(self, to: Self) -> Option<Edge> {
        TABLE.iter().find(|(from, target, _)| (*from, *target) == (self, to)).map(|(_, _, edge)| *edge)
    }

    /// Whether the entry is being built, checked or landed.
    pub fn is_processing(self) -> bool {
        matches!(self, Self::Updating | Self::Checking | Self::Ready)
    }

    /// Whether an entry in this status is still in a queue.
    pub fn is_live(self) -> bool {
        self == Self::Pending || self.is_processing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_statuses_is_allowed_or_forbidden_as_the_seed_says() {
        use Status::{Cancelled, Checking, Failed, Pending, Ready, Updating};
        let allowed = [
            (Pending, &[Updating, Checking, Failed, Cancelled][..]),
            (Updating, &[Checking, Pending, Failed, Cancelled]),
            (Checking, &[Ready, Updating, Failed, Cancelled]),
            (Ready, &[Updating, Failed, Cancelled]),
            (Failed, &[]),
            (Cancelled, &[]),
        ];
        for (from, targets) in allowed {
            for to in Status::ALL {
                assert_eq!(from.edge(to).is_some(), targets.contains(&to), "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn only_a_void_candidate_or_a_transient_error_leads_back() {
        let back: Vec<_> = TABLE.iter().filter(|(_, _, edge)| *edge == Edge::Back).collect();
        assert_eq!(back.len(), 3);
        assert!(back.iter().all(|(from, to, _)| from > to && to.is_live()));
    }

    #[test]
    fn a_final_status_has_no_transitions() {
        for (from, _, _) in TABLE {
            assert!(from.is_live());
        }
    }
}
