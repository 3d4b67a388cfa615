//! What a node concludes from the documents of leader and nodes, by its own monotonic clock: no wall clock
//! decides who leads.

use std::time::Duration;

use crate::cluster::ClusterSettings;
use crate::id::Version;
use crate::time::Monotonic;

/// One look at the documents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The version of the leader's document: the epoch; `None`: there is none.
    pub epoch: Option<Version>,
    /// The node that leads by it.
    pub node: Option<String>,
    /// The host of that node.
    pub host: String,
    /// The node that resigned, if none leads.
    pub resigned: Option<String>,
    /// The version of the leading node's heartbeat.
    pub heartbeat: Option<Version>,
    /// Whether that heartbeat says that it exits.
    pub stopped: bool,
}

/// Who leads, as far as an observer can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// A node leads; it was heard this long ago.
    Led {
        /// The node that leads.
        node: String,
        /// How long ago the observer saw its last heartbeat.
        silent_for: Duration,
    },
    /// No node leads, or the one that did is stale; for this long.
    Vacant {
        /// Since the leader fell silent or resigned, or since the observer began to look.
        silent_for: Duration,
    },
}

/// An observer of the leader. Silence is counted from when the observer *saw* the last heartbeat, which is
/// after the leader sent it; the leader counts from before it sent it, so it stops first.
#[derive(Debug, Clone)]
pub struct LeaderWatch {
    seen: Seen,
    /// When what it saw last changed.
    changed_at: Monotonic,
}

impl LeaderWatch {
    /// An observer that has seen nothing yet: the leader has its full time to be heard.
    pub fn new(now: Monotonic) -> Self {
        Self { seen: Seen::default(), changed_at: now }
    }

    /// Takes a look into account. `now` is read after the answer arrived.
    pub fn observe(&mut self, seen: Seen, now: Monotonic) {
        if seen != self.seen {
            self.seen = seen;
            self.changed_at = now;
        }
    }

    /// What was seen last.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Who leads.
    pub fn leadership(&self, settings: &ClusterSettings, now: Monotonic) -> Leadership {
        let silent_for = now.since(self.changed_at);
        match &self.seen.node {
            Some(node) if !self.seen.stopped && silent_for < settings.leader_stale => {
                Leadership::Led { node: node.clone(), silent_for }
            }
            _ => Leadership::Vacant { silent_for },
        }
    }

    /// Whether a node may take over. After silence, nodes on the leader's host wait one tick longer, so that
    /// another host is preferred; a node that resigned waits as if its successor were silent.
    pub fn may_take_over(&self, node: &str, host: &str, settings: &ClusterSettings, now: Monotonic) -> bool {
        let silent_for = now.since(self.changed_at);
        let same_host = if self.seen.host == host { settings.tick } else { Duration::ZERO };
        let is_vacant = self.seen.node.is_none() || self.seen.stopped;
        if is_vacant && self.seen.resigned.as_deref() != Some(node) {
            // A resignation is a change that was seen; before the first look nothing was.
            let waits = if self.seen.epoch.is_some() { same_host } else { Duration::ZERO };
            return silent_for >= waits;
        }
        silent_for >= settings.leader_stale + same_host
    }

    /// How long there has been no leader, if it is long enough that assigned tasks are released without one.
    pub fn leaderless(&self, settings: &ClusterSettings, now: Monotonic) -> Option<Duration> {
        match self.leadership(settings, now) {
            Leadership::Vacant { silent_for } => (silent_for >= settings.leaderless).then_some(silent_for),
            Leadership::Led { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: Duration = Duration::from_secs(10);
    const TICK: Duration = Duration::from_secs(1);

    fn at(span: Duration) -> Monotonic {
        Monotonic::default().saturating_add(span)
    }

    fn led(heartbeat: u64) -> Seen {
        Seen {
            epoch: Some(Version(3)),
            node: Some("n1".into()),
            host: "h1".into(),
            heartbeat: Some(Version(heartbeat)),
            ..Seen::default()
        }
    }

    #[test]
    fn a_leader_that_is_heard_keeps_leading() {
        let settings = ClusterSettings::default();
        let mut watch = LeaderWatch::new(at(Duration::ZERO));
        for second in 1..100 {
            watch.observe(led(second), at(Duration::from_secs(second)));
        }
        assert!(!watch.may_take_over("n2", "h2", &settings, at(Duration::from_secs(105))));
    }

    #[test]
    fn another_host_takes_over_after_silence_and_the_same_host_a_tick_later() {
        let settings = ClusterSettings::default();
        let mut watch = LeaderWatch::new(at(Duration::ZERO));
        watch.observe(led(1), at(TICK));
        // The same heartbeat again is silence.
        watch.observe(led(1), at(5 * TICK));
        let just_before = at(TICK + STALE - Duration::from_millis(1));
        assert!(!watch.may_take_over("n2", "h2", &settings, just_before));
        assert!(watch.may_take_over("n2", "h2", &settings, at(TICK + STALE)));
        assert!(!watch.may_take_over("n3", "h1", &settings, at(TICK + STALE)));
        assert!(watch.may_take_over("n3", "h1", &settings, at(TICK + STALE + TICK)));
    }

    #[test]
    fn a_node_that_resigned_lets_the_others_go_first() {
        let settings = ClusterSettings::default();
        let mut watch = LeaderWatch::new(at(Duration::ZERO));
        let resigned = Seen {
            epoch: Some(Version(4)),
            host: "h1".into(),
            resigned: Some("n1".into()),
            ..Seen::default()
        };
        watch.observe(resigned, at(TICK));
        assert!(watch.may_take_over("n2", "h2", &settings, at(TICK)));
        assert!(!watch.may_take_over("n1", "h1", &settings, at(3 * TICK)));
        assert!(watch.may_take_over("n1", "h1", &settings, at(TICK + STALE + TICK)));
    }

    #[test]
    fn the_first_node_of_a_store_leads_at_once() {
        let watch = LeaderWatch::new(at(Duration::ZERO));
        assert!(watch.may_take_over("n1", "h1", &ClusterSettings::default(), at(Duration::ZERO)));
    }

    #[test]
    fn a_cluster_is_leaderless_only_after_a_minute() {
        let settings = ClusterSettings::default();
        let mut watch = LeaderWatch::new(at(Duration::ZERO));
        watch.observe(led(1), at(TICK));
        assert_eq!(watch.leaderless(&settings, at(60 * TICK)), None);
        assert_eq!(watch.leaderless(&settings, at(61 * TICK)), Some(60 * TICK));
    }
}
