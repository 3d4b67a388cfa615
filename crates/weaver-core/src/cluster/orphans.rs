//! When an assignment that was not started is taken from its worker.

use std::time::Duration;

use crate::cluster::ClusterSettings;
use crate::lifecycle::OrphanCause;
use crate::name::WorkerId;
use crate::ports::{Directive, RunnerRecord, RunnerStatus};
use crate::task::{AttemptOutcome, TaskRecord, TaskState};

/// What a worker may be given, as far as an observer can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fitness {
    /// It is heard and takes tasks.
    Available,
    /// Whatever is assigned to it goes to another worker.
    Unfit(OrphanCause),
}

/// The fitness of a worker whose heartbeat the observer saw unchanged for `silent_for`, on its own monotonic
/// clock: an observer that has just begun to look declares no worker silent.
pub fn fitness(worker: Option<&RunnerRecord>, silent_for: Duration) -> Fitness {
    let Some(worker) = worker else { return Fitness::Unfit(OrphanCause::Left) };
    if worker.status == RunnerStatus::Stopped {
        return Fitness::Unfit(OrphanCause::Left);
    }
    if worker.directive == Directive::Detach {
        return Fitness::Unfit(OrphanCause::Detached);
    }
    if worker.beat.draining || worker.directive != Directive::Run {
        return Fitness::Unfit(OrphanCause::Drained);
    }
    if silent_for >= worker.beat.expires_after() {
        return Fitness::Unfit(OrphanCause::Silent);
    }
    Fitness::Available
}

/// Why a task that has been assigned for this long is taken from its worker; `None`: it is not, yet.
pub fn orphan_cause(
    fitness: Fitness,
    assigned_for: Duration,
    settings: &ClusterSettings,
) -> Option<OrphanCause> {
    match fitness {
        Fitness::Unfit(cause) if assigned_for >= settings.reassign_after => Some(cause),
        _ if assigned_for >= settings.start_within => Some(OrphanCause::NotStarted),
        _ => None,
    }
}

/// The worker from which an orphaned task was just taken: another one is preferred.
pub fn taken_from(record: &TaskRecord) -> Option<&WorkerId> {
    let last = record.attempts.iter().next_back()?;
    let is_unassigned = matches!(record.state, TaskState::Orphaned | TaskState::RetryScheduled);
    (is_unassigned && last.outcome == AttemptOutcome::Orphaned).then_some(&last.worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Namespace;
    use crate::ports::{Beat, RunnerKey};
    use crate::time::Timestamp;

    const SECOND: Duration = Duration::from_secs(1);

    fn worker() -> RunnerRecord {
        let key = RunnerKey { namespace: Namespace::default(), runner_id: WorkerId::new("w1").unwrap() };
        let beat = Beat {
            key,
            project_root: None,
            started_at: Timestamp::MIN,
            queues: Vec::new(),
            types: None,
            capacity: 4,
            running: 0,
            draining: false,
            every: Some(SECOND),
        };
        RunnerRecord {
            beat,
            last_heartbeat: Timestamp::MIN,
            status: RunnerStatus::Running,
            directive: Directive::Run,
        }
    }

    #[test]
    fn a_worker_that_is_heard_keeps_its_tasks_until_the_second_bound() {
        let settings = ClusterSettings::default();
        let heard = fitness(Some(&worker()), 4 * SECOND);
        assert_eq!(heard, Fitness::Available);
        assert_eq!(orphan_cause(heard, 299 * SECOND, &settings), None);
        assert_eq!(orphan_cause(heard, 300 * SECOND, &settings), Some(OrphanCause::NotStarted));
    }

    #[test]
    fn a_silent_worker_loses_them_after_the_first_bound() {
        let settings = ClusterSettings::default();
        let silent = fitness(Some(&worker()), 5 * SECOND);
        assert_eq!(silent, Fitness::Unfit(OrphanCause::Silent));
        assert_eq!(orphan_cause(silent, 59 * SECOND, &settings), None);
        assert_eq!(orphan_cause(silent, 60 * SECOND, &settings), Some(OrphanCause::Silent));
    }

    #[test]
    fn what_a_worker_said_or_was_told_precedes_its_silence() {
        let with = |change: fn(&mut RunnerRecord)| {
            let mut record = worker();
            change(&mut record);
            fitness(Some(&record), 100 * SECOND)
        };
        assert_eq!(with(|record| record.beat.draining = true), Fitness::Unfit(OrphanCause::Drained));
        assert_eq!(with(|record| record.directive = Directive::Drain), Fitness::Unfit(OrphanCause::Drained));
        assert_eq!(with(|record| record.directive = Directive::Stop), Fitness::Unfit(OrphanCause::Drained));
        let detached = with(|record| record.directive = Directive::Detach);
        assert_eq!(detached, Fitness::Unfit(OrphanCause::Detached));
        let left = with(|record| record.status = RunnerStatus::Stopped);
        assert_eq!(left, Fitness::Unfit(OrphanCause::Left));
        assert_eq!(fitness(None, Duration::ZERO), Fitness::Unfit(OrphanCause::Left));
    }

    #[test]
    fn a_worker_that_does_not_say_how_often_it_is_heard_is_silent_after_two_minutes() {
        let mut record = worker();
        record.beat.every = None;
        assert_eq!(fitness(Some(&record), 119 * SECOND), Fitness::Available);
        assert_eq!(fitness(Some(&record), 120 * SECOND), Fitness::Unfit(OrphanCause::Silent));
    }
}
