//! What an entry is doing, and what it may do next (seed 003, 1.1), as a table.

use serde::{Deserialize, Serialize};

/// What an entry is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waiting in the queue.
    Pending,
    /// Its candidate is being built: the merge of its exact head onto the exact base.
    Updating,
    /// Checks run on the candidate.
    Checking,
    /// Every check passed; the base is about to move.
    Ready,
    /// It left: a conflict or a failed check.
    Failed,
    /// It left: somebody or something took it out.
    Cancelled,
}

/// What kind of a move it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// On the way to landing.
    Forward,
    /// Back, because the candidate is void (base or head moved, base broken) or an error will pass.
    Back,
    /// Out of the queue without landing.
    Out,
}

/// Every allowed move. Landing is not one: an entry that is ready and landed is removed.
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
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Updating, Self::Checking, Self::Ready, Self::Failed, Self::Cancelled];

    /// The kind of move from this to another, if there is one.
    pub fn edge(self, to: Self) -> Option<Edge> {
        TABLE.iter().find(|(from, target, _)| (*from, *target) == (self, to)).map(|(_, _, edge)| *edge)
    }

    /// Whether the queue is at work on the entry.
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
    fn every_pair_of_statuses_is_allowed_or_forbidden_as_the_design_says() {
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
    fn only_a_void_candidate_or_a_passing_error_leads_back() {
        let back: Vec<_> = TABLE.iter().filter(|(_, _, edge)| *edge == Edge::Back).collect();
        assert_eq!(back.len(), 3);
        assert!(back.iter().all(|(from, to, _)| from > to && to.is_live()));
    }

    #[test]
    fn what_has_left_does_not_come_back() {
        for (from, _, _) in TABLE {
            assert!(from.is_live());
        }
    }
}
