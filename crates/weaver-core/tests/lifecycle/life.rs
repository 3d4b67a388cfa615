//! One task and its store's clock, for tests of the lifecycle.

use std::time::Duration;

use weaver_core::id::{Epoch, LeaseToken, TaskId};
use weaver_core::lease::Lease;
use weaver_core::lifecycle::{Command, Grant, OverdueReason, Refused, Transition, admit, decide};
use weaver_core::limits::Limits;
use weaver_core::name::WorkerId;
use weaver_core::outcome::Outcome;
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;

/// When every test begins: 2023-11-14T22:13:20Z.
pub(crate) const BEGIN: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A task with the defaults.
pub(crate) fn task() -> NewTask {
    NewTask::new("send_email")
}

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId::try_from(name).expect("tests name their workers properly")
}

/// A record and its store's clock.
pub(crate) struct Life {
    pub(crate) record: TaskRecord,
    pub(crate) now: Timestamp,
}

impl Life {
    pub(crate) fn of(task: NewTask) -> Self {
        let valid = task.validate(&Limits::default()).expect("tests make valid tasks");
        Self {
            record: admit(valid, TaskId(1), BEGIN).expect("tests begin long before time ends"),
            now: BEGIN,
        }
    }

    /// A task that was leased.
    pub(crate) fn running(task: NewTask) -> Self {
        let mut life = Self::of(task);
        let _ = life.lease();
        life
    }

    /// Decides a command and applies it, unless it is refused.
    pub(crate) fn ask(&mut self, command: Command) -> Result<Transition, Refused> {
        let transition = decide(&self.record, command, self.now)?;
        assert!(transition.fits(&self.record), "what was just decided fits");
        transition.clone().apply(&mut self.record, self.now);
        Ok(transition)
    }

    /// The grant of a worker, with another token for each version.
    pub(crate) fn grant(&self, name: &str) -> Grant {
        Grant {
            worker: worker(name),
            token: LeaseToken(u128::from(self.record.version.0) << 64 | 1),
            ttl: TTL,
        }
    }

    /// Waits until it is due and leases it.
    pub(crate) fn lease(&mut self) -> Lease {
        self.now = self.now.max(self.record.ready_at);
        let _ = self.ask(Command::Lease(self.grant("ada"))).expect("it is due");
        self.record.current_lease().expect("it is leased")
    }

    pub(crate) fn assign(&mut self, name: &str, epoch: u64) -> Result<Transition, Refused> {
        self.ask(Command::Assign { worker: worker(name), epoch: Epoch(epoch) })
    }

    pub(crate) fn start(&mut self, name: &str) -> Result<Lease, Refused> {
        let _ = self.ask(Command::Start(self.grant(name)))?;
        Ok(self.record.current_lease().expect("it was started"))
    }

    /// Ends the current attempt.
    pub(crate) fn finish(&mut self, outcome: Outcome) -> Transition {
        let lease = self.record.current_lease().expect("it runs");
        self.ask(Command::Finish { lease, outcome }).expect("its lease is valid")
    }

    /// Lets its lease expire.
    pub(crate) fn expire_lease(&mut self) -> Transition {
        self.now = self.now.saturating_add(TTL);
        self.ask(Command::Expire(OverdueReason::Lease)).expect("it runs")
    }
}
