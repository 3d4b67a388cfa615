//! A term of a leader.

use weaver_core::cluster::{ClusterSettings, leader_key};
use weaver_core::id::Version;
use weaver_core::queue::LeaderEpoch;
use weaver_core::time::Monotonic;

/// A term: from an election until it is not confirmed in time, or another node is elected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) epoch: Version,
    /// Others may take over from then on: this node counts from before it sent its heartbeat, they count from
    /// when they saw it, which is later.
    valid_until: Monotonic,
}

impl Term {
    /// Confirmed by a write that was sent at this time.
    pub(crate) fn confirmed(epoch: Version, sent_at: Monotonic, settings: &ClusterSettings) -> Self {
        Self { epoch, valid_until: sent_at.saturating_add(settings.leader_stale) }
    }

    /// Whether this node may still act as the leader.
    pub(crate) fn is_valid(&self, now: Monotonic) -> bool {
        now < self.valid_until
    }

    /// The condition of its writes.
    pub(crate) fn condition(&self) -> LeaderEpoch {
        LeaderEpoch { document: leader_key(), epoch: self.epoch }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_term_that_was_not_confirmed_ends_before_another_node_may_take_over() {
        let settings = ClusterSettings::default();
        let sent_at = Monotonic(Duration::from_secs(100));
        let term = Term::confirmed(Version(3), sent_at, &settings);
        let last = sent_at.saturating_add(settings.leader_stale);
        assert!(term.is_valid(Monotonic(last.0 - Duration::from_millis(1))));
        assert!(!term.is_valid(last));
    }
}
