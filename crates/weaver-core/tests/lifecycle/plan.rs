//! Random plans for one task: commands, allowed or not, with their times and leases; and the events that
//! result.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use weaver_core::id::{Epoch, LeaseToken, ProcessId, TaskId, Version};
use weaver_core::lease::{ContinuationChange, Lease, Renewal, Renewed};
use weaver_core::lifecycle::{
    Command, Grant, OrphanCause, OverdueReason, Refused, Transition, confirm_stopped, decide, renew,
};
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::TaskRecord;
use weaver_core::time::Timestamp;

use crate::life::{BEGIN, Life, SECOND, TTL, task, worker};

/// An event, and the record before and after it.
pub(crate) struct Seen {
    pub(crate) now: Timestamp,
    pub(crate) before: TaskRecord,
    pub(crate) event: Event,
    pub(crate) after: TaskRecord,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a few of them, in tests")]
pub(crate) enum Event {
    Moved(Command, Transition),
    Refused(Command, Refused),
    Renewed(Renewal, Renewed),
    Stopped,
}

/// A task and the steps to try on it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    terms: Terms,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Terms {
    max_attempts: u32,
    max_losses: u32,
    retry: RetryPolicy,
    delay: Option<Duration>,
    expires_after: Option<Duration>,
    is_serial: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Advance(Duration),
    Lease,
    Assign { worker: &'static str, epoch: Epoch },
    Start { worker: &'static str },
    Finish(Which, Outcome),
    Renew(Which, Option<ContinuationChange>),
    ConfirmStopped(Which),
    Ask(Command),
}

/// Under which lease something is done.
#[derive(Debug, Clone)]
enum Which {
    Valid,
    Former(Index),
    Forged(Forgery),
}

/// One thing that is wrong about a lease.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Forgery {
    Older,
    Newer,
    Token,
    Epoch,
    Task,
}

impl Forgery {
    pub(crate) const ALL: [Self; 5] = [Self::Older, Self::Newer, Self::Token, Self::Epoch, Self::Task];

    pub(crate) fn of(self, mut lease: Lease) -> Lease {
        match self {
            Self::Older => lease.version = Version(lease.version.0 - 1),
            Self::Newer => lease.version = lease.version.next(),
            Self::Token => lease.token = LeaseToken(!lease.token.0),
            Self::Epoch => lease.epoch = Epoch(lease.epoch.0 + 1),
            Self::Task => lease.key.id = TaskId(lease.key.id.0 + 1),
        }
        lease
    }
}

impl Plan {
    pub(crate) fn live(&self) -> Vec<Seen> {
        let mut life = Life::of(self.terms.task());
        let mut leases = Vec::new();
        let mut seen = Vec::new();
        for step in &self.steps {
            let before = life.record.clone();
            let Some(event) = step.take(&mut life, &leases) else { continue };
            leases.extend(life.record.current_lease().filter(|lease| leases.last() != Some(lease)));
            seen.push(Seen { now: life.now, before, event, after: life.record.clone() });
        }
        seen
    }
}

impl Terms {
    fn task(&self) -> weaver_core::task::NewTask {
        let mut task = task().max_attempts(self.max_attempts).max_losses(self.max_losses).retry(self.retry);
        if let Some(delay) = self.delay {
            task = task.delay(delay);
        }
        if let Some(span) = self.expires_after {
            task = task.expires_at(BEGIN.saturating_add(span));
        }
        if self.is_serial { task.serial_key("order-42") } else { task }
    }
}

impl Step {
    fn take(&self, life: &mut Life, leases: &[Lease]) -> Option<Event> {
        let command = match self.clone() {
            Self::Advance(span) => {
                life.now = life.now.saturating_add(span);
                return None;
            }
            Self::Renew(which, continuation) => {
                let lease = which.lease(life, leases)?;
                let renewal = Renewal { continuation, ..Renewal::of(lease) };
                let answer = renew(&mut life.record, renewal.clone(), life.now);
                return Some(Event::Renewed(renewal, answer));
            }
            Self::ConfirmStopped(which) => {
                let lease = which.lease(life, leases)?;
                confirm_stopped(&mut life.record, &lease);
                return Some(Event::Stopped);
            }
            Self::Lease => Command::Lease(grant(life, "ada")),
            Self::Assign { worker: name, epoch } => Command::Assign { worker: worker(name), epoch },
            Self::Start { worker } => Command::Start(grant(life, worker)),
            Self::Finish(which, outcome) => Command::Finish { lease: which.lease(life, leases)?, outcome },
            Self::Ask(command) => command,
        };
        Some(match decide(&life.record, command.clone(), life.now) {
            Err(refused) => Event::Refused(command, refused),
            Ok(transition) => {
                transition.clone().apply(&mut life.record, life.now);
                Event::Moved(command, transition)
            }
        })
    }
}

/// A token per version is a token per start.
fn grant(life: &Life, name: &str) -> Grant {
    Grant {
        worker: worker(name),
        token: LeaseToken::of_process(ProcessId(life.record.version.0), 1),
        ttl: TTL,
    }
}

impl Which {
    /// `None` if the task was never leased.
    fn lease(&self, life: &Life, leases: &[Lease]) -> Option<Lease> {
        let newest = life.record.current_lease().or_else(|| leases.last().cloned())?;
        Some(match self {
            Self::Valid => newest,
            Self::Former(index) => index.get(leases).clone(),
            Self::Forged(forgery) => forgery.of(newest),
        })
    }
}

/// Plans of up to 60 phrases, with budgets small enough to be spent or too large for it.
pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    (terms(), prop::collection::vec(phrases(), 1..60))
        .prop_map(|(terms, phrases)| Plan { terms, steps: phrases.into_iter().flatten().collect() })
}

/// Plans of 20 to 60 attempts, none of which ends the task.
pub(crate) fn long_plans() -> impl Strategy<Value = Plan> {
    let terms = Terms {
        max_attempts: 1000,
        max_losses: 1000,
        retry: RetryPolicy::Fixed { delay: SECOND },
        delay: None,
        expires_after: None,
        is_serial: false,
    };
    let ends = prop_oneof![
        Just(Step::Finish(Which::Valid, Outcome::failed("no route to host"))),
        Just(Step::Finish(Which::Valid, Outcome::Released)),
        Just(Step::Ask(Command::Expire(OverdueReason::Lease))),
    ];
    let attempts = ends.prop_map(|end| [Step::Advance(10 * SECOND), Step::Lease, end]);
    prop::collection::vec(attempts, 20..60)
        .prop_map(move |steps| Plan { terms: terms.clone(), steps: steps.concat() })
}

/// One step of any kind, or an attempt with its end: single steps alone rarely get a task far.
fn phrases() -> impl Strategy<Value = Vec<Step>> {
    let assign = Step::Assign { worker: "ada", epoch: Epoch(1) };
    let pulled = vec![Step::Advance(10 * SECOND), Step::Lease];
    let assigned = vec![Step::Advance(10 * SECOND), assign];
    let started = [assigned.clone(), vec![Step::Start { worker: "ada" }]].concat();
    let orphaned = [assigned.clone(), vec![Step::Ask(Command::Orphan(OrphanCause::Silent))]].concat();
    let beginnings = prop::sample::select(vec![pulled, assigned, started, orphaned]);
    let ends = prop_oneof![
        3 => outcomes().prop_map(|end| Step::Finish(Which::Valid, end)),
        1 => commands().prop_map(Step::Ask),
    ];
    let attempts = (beginnings, ends).prop_map(|(beginning, end)| [beginning, vec![end]].concat());
    prop_oneof![steps().prop_map(|step| vec![step]), attempts]
}

fn terms() -> impl Strategy<Value = Terms> {
    let policy = prop_oneof![
        1 => Just(RetryPolicy::None),
        3 => spans().prop_map(|delay| RetryPolicy::Fixed { delay }),
        3 => (spans(), 1..5_u32, spans(), any::<bool>())
            .prop_map(|(base, factor, cap, jitter)| RetryPolicy::Exponential { base, factor, cap, jitter }),
    ];
    let max_attempts = prop_oneof![1..5_u32, Just(1000)];
    let max_losses = prop_oneof![0..4_u32, Just(1000)];
    let delay = prop::option::weighted(0.3, spans());
    let expires_after = prop::option::weighted(0.3, spans().prop_map(|span| 5 * span));
    (max_attempts, max_losses, policy, delay, expires_after, any::<bool>()).prop_map(
        |(max_attempts, max_losses, retry, delay, expires_after, is_serial)| Terms {
            max_attempts,
            max_losses,
            retry,
            delay,
            expires_after,
            is_serial,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let name = || prop_oneof![Just("ada"), Just("bob")];
    prop_oneof![
        6 => spans().prop_map(Step::Advance),
        6 => Just(Step::Lease),
        4 => (name(), (1..4_u64).prop_map(Epoch)).prop_map(|(worker, epoch)| Step::Assign { worker, epoch }),
        6 => name().prop_map(|worker| Step::Start { worker }),
        12 => (which(), outcomes()).prop_map(|(which, outcome)| Step::Finish(which, outcome)),
        3 => (which(), continuations()).prop_map(|(which, change)| Step::Renew(which, change)),
        1 => which().prop_map(Step::ConfirmStopped),
        8 => commands().prop_map(Step::Ask),
    ]
}

/// Commands that need no lease. Cancelling is rare: it ends everything.
fn commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        6 => prop::sample::select(&OrphanCause::ALL[..]).prop_map(Command::Orphan),
        3 => Just(Command::ReleaseOrphan),
        3 => Just(Command::AbandonOrphan),
        6 => Just(Command::Expire(OverdueReason::Lease)),
        4 => Just(Command::Expire(OverdueReason::ExpiresAt)),
        2 => Just(Command::Expire(OverdueReason::Hold)),
        4 => (0..4_u64).prop_map(|process| Command::HolderEnded { process: ProcessId(process) }),
        8 => Just(Command::RunNow),
        1 => Just(Command::Cancel),
        1 => Just(Command::Replace),
    ]
}

/// Mostly outcomes after which the task is retried.
fn outcomes() -> impl Strategy<Value = Outcome> {
    let retry = prop_oneof![
        20 => Just(Retry::ByPolicy),
        10 => spans().prop_map(Retry::After),
        1 => Just(Retry::Never),
    ];
    prop_oneof![
        1 => Just(Outcome::DONE),
        12 => retry.prop_map(|retry| Outcome::Failed { error: "no route to host".into(), retry }),
        6 => Just(Outcome::TimedOut),
        8 => spans().prop_map(|delay| Outcome::Snoozed { delay }),
        1 => Just(Outcome::Cancelled { message: "unsubscribed".into() }),
        8 => Just(Outcome::Released),
    ]
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![
        8 => Just(Which::Valid),
        1 => any::<Index>().prop_map(Which::Former),
        1 => prop::sample::select(&Forgery::ALL[..]).prop_map(Which::Forged),
    ]
}

fn continuations() -> impl Strategy<Value = Option<ContinuationChange>> {
    prop_oneof![
        Just(None),
        spans().prop_map(|within| Some(ContinuationChange::Confirming { within })),
        Just(Some(ContinuationChange::Continue)),
    ]
}

/// From nothing to ten seconds, often exactly nothing.
fn spans() -> impl Strategy<Value = Duration> {
    prop_oneof![1 => Just(Duration::ZERO), 4 => (0..10_000_u64).prop_map(Duration::from_millis), 1 => Just(10 * SECOND)]
}
