//! Every transition that tasks with small budgets can make, found by trying every command on every record
//! that another transition leads to. Shared by the tests of the lifecycle and of the projections.

use std::collections::HashSet;
use std::time::Duration;

use weaver_core::id::{Epoch, LeaseToken, TaskId};
use weaver_core::lease::Lease;
use weaver_core::lifecycle::{
    Command, Grant, OrphanCause, OverdueReason, Refused, Transition, admit, decide,
};
use weaver_core::limits::Limits;
use weaver_core::name::WorkerId;
use weaver_core::outcome::Outcome;
use weaver_core::task::{NewTask, TaskRecord};
use weaver_core::time::Timestamp;

/// When every exploration begins: 2023-11-14T22:13:20Z.
const BEGIN: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);
/// Releases and snoozes charge nothing, so a task can be started any number of times; more than this shows
/// nothing new.
const EXECUTIONS_MAX: u32 = 4;

/// The decision, and the record after it was applied.
pub(crate) type Decided = Result<(Transition, TaskRecord), Refused>;

/// Tries every command on a few tasks with small budgets, and on every record that results; shows each
/// record, the command and the decision.
pub(crate) fn explore(mut show: impl FnMut(&TaskRecord, &Command, &Decided)) {
    let mut waiting: Vec<TaskRecord> = beginnings();
    let mut known = HashSet::new();
    while let Some(before) = waiting.pop() {
        if before.executions > EXECUTIONS_MAX || !known.insert(shape(&before)) {
            continue;
        }
        for command in commands(&before) {
            let now = in_time(&before, &command);
            let decided = decide(&before, command.clone(), now).map(|transition| {
                let mut after = before.clone();
                transition.clone().apply(&mut after, now);
                (transition, after)
            });
            show(&before, &command, &decided);
            waiting.extend(decided.ok().map(|(_, after)| after));
        }
    }
}

/// Every command, allowed or not. Ends are reported under the valid lease, or under a made-up one that
/// matches the record if there is none.
pub(crate) fn commands(record: &TaskRecord) -> Vec<Command> {
    let worker = WorkerId::new("explorer").expect("it is a name");
    let grant = Grant { worker: worker.clone(), token: LeaseToken(record.version.0.into()), ttl: HOUR };
    let made_up = Lease {
        key: record.key.clone(),
        version: record.version,
        attempt: record.attempt,
        worker: worker.clone(),
        token: grant.token,
        epoch: Epoch(0),
        ttl: grant.ttl,
    };
    let lease = record.current_lease().or_else(|| record.hold()).unwrap_or(made_up);
    let ends = outcomes().map(|outcome| Command::Finish { lease: lease.clone(), outcome });
    let mut commands = vec![
        Command::Lease(grant.clone()),
        Command::Assign { worker, epoch: Epoch(7) },
        Command::Start(grant),
        Command::Orphan(OrphanCause::Silent),
        Command::Orphan(OrphanCause::Detached),
        Command::ReleaseOrphan,
        Command::AbandonOrphan,
        Command::Expire(OverdueReason::Lease),
        Command::Expire(OverdueReason::ExpiresAt),
        Command::Expire(OverdueReason::Hold),
        Command::HolderEnded { process: lease.token.process() },
        Command::Cancel,
        Command::Replace,
        Command::RunNow,
    ];
    commands.extend(ends);
    commands
}

/// Every way a handler can end.
pub(crate) fn outcomes() -> impl Iterator<Item = Outcome> {
    [
        Outcome::DONE,
        Outcome::failed("no route to host"),
        Outcome::fatal("no such address"),
        Outcome::TimedOut,
        Outcome::Snoozed { delay: HOUR },
        Outcome::Cancelled { message: "unsubscribed".into() },
        Outcome::Released,
        Outcome::Committed,
    ]
    .into_iter()
}

fn beginnings() -> Vec<TaskRecord> {
    let task = || NewTask::new("send_email").max_attempts(2).max_losses(1);
    let tasks = [
        task(),
        task().delay(HOUR),
        task().expires_at(BEGIN.saturating_add(2 * HOUR)),
        task().max_attempts(1).max_losses(0),
        task().delay(HOUR).expires_at(BEGIN.saturating_add(2 * HOUR)),
    ];
    let admitted = |task: NewTask| {
        let valid = task.validate(&Limits::default()).expect("they are valid");
        admit(valid, TaskId(1), BEGIN).expect("they begin long before time ends")
    };
    tasks.map(admitted).into()
}

/// The moment at which the command is neither too early nor too late, if there is one.
fn in_time(record: &TaskRecord, command: &Command) -> Timestamp {
    match command {
        Command::Expire(OverdueReason::ExpiresAt) => record.spec.expires_at.unwrap_or(record.updated_at),
        _ => record.updated_at.max(record.ready_at),
    }
    .max(record.updated_at)
}

/// What distinguishes two records for the rules.
fn shape(record: &TaskRecord) -> impl Eq + std::hash::Hash + use<> {
    let counters =
        (record.executions, record.failures, record.losses, record.attempt.min(EXECUTIONS_MAX + 2));
    (record.state, record.cause, counters, record.spec.expires_at, record.lease.is_some())
}
