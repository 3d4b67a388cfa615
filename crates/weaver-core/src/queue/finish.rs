//! The finish protocol, for every caller that reports ends: a worker with a local store, the server for
//! remote workers, and [`QueueExt::mark`](crate::queue::QueueExt::mark).
//!
//! ```text
//! reports ─▶ read missing records ─▶ decide_end ─▶ commit ─▶ read back stale ends reported as committed
//! ```
//!
//! Members are independent: one that is lost, unreadable or too large changes nothing for the others. A
//! member whose record is absent or cannot be read is lost.
//!
//! A store that answers another number of members than the batch has is unavailable, because its answers
//! cannot be matched to tasks.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::id::TaskKey;
use crate::lease::{Lease, LeaseRequest, Leased};
use crate::lifecycle::{EndDecision, Ended, Transition, decide_end, recorded_before};
use crate::outcome::Outcome;
use crate::ports::Tasks;
use crate::queue::{Committed, CommittedAndLeased, Queue};
use crate::task::{TaskRecord, TaskState};

/// A report of an attempt's end.
pub trait EndReport: Sync {
    /// The lease that the attempt ran under.
    fn lease(&self) -> &Lease;
    /// How the attempt ended.
    fn outcome(&self) -> &Outcome;
    /// The record as it was leased, if the caller has it: deciding on it saves a read, and the store refuses
    /// a commit that no longer fits. `None`: the record is read.
    fn leased_record(&self) -> Option<&TaskRecord>;
}

/// The two store calls of the protocol. Every store implements it; a separate trait, so that a caller can
/// measure them.
pub trait EndStore: Sync {
    /// Reads the records, like [`Tasks::get_tasks`].
    fn read_records(&self, keys: &[TaskKey]) -> impl Future<Output = Result<Vec<Option<TaskRecord>>>> + Send;
    /// [`Queue::commit`] without a leader.
    fn commit_ends(
        &self,
        transitions: Vec<Transition>,
    ) -> impl Future<Output = Result<Vec<Committed>>> + Send;
}

impl<S: Queue + Tasks + ?Sized> EndStore for S {
    async fn read_records(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        self.get_tasks(keys).await
    }

    async fn commit_ends(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>> {
        self.commit(transitions, None).await
    }
}

/// Ends that are decided and not yet committed.
struct Decided {
    /// The answers so far; [`Ended::Lost`] for those that are to be committed.
    answers: Vec<Ended>,
    /// Of each transition: the end's position, its new state and the delay until it is due.
    places: Vec<(usize, TaskState, Option<Duration>)>,
    transitions: Vec<Transition>,
}

/// Records reported ends and answers in their order. Idempotent: a repeated report is recorded once and gets
/// the same answer. One store call if every report has its record and no handler committed its own end.
pub async fn finish<S: EndStore + ?Sized, E: EndReport>(store: &S, ends: &[E]) -> Result<Vec<Ended>> {
    let Decided { answers, places, transitions } = decide_all(store, ends).await?;
    if transitions.is_empty() {
        return Ok(answers);
    }
    let committed = store.commit_ends(transitions).await?;
    answer(store, ends, answers, places, committed).await
}

/// As [`finish`], and then leases ([`Queue::commit_and_lease`]). The ends stay recorded if leasing fails;
/// repeated with the same token it answers the same.
pub async fn finish_and_lease<S: Queue + Tasks + ?Sized, E: EndReport>(
    store: &S,
    ends: &[E],
    request: LeaseRequest,
) -> Result<(Vec<Ended>, Result<Vec<Leased>>)> {
    let Decided { answers, places, transitions } = decide_all(store, ends).await?;
    let CommittedAndLeased { committed, leased } = store.commit_and_lease(transitions, request).await?;
    let answers = answer(store, ends, answers, places, committed).await?;
    Ok((answers, leased))
}

async fn decide_all<S: EndStore + ?Sized, E: EndReport>(store: &S, ends: &[E]) -> Result<Decided> {
    let mut found = read(store, ends.iter().filter(|end| must_read(*end))).await?.into_iter();
    let mut answers = Vec::with_capacity(ends.len());
    let mut places = Vec::with_capacity(ends.len());
    let mut transitions = Vec::with_capacity(ends.len());
    for (index, end) in ends.iter().enumerate() {
        let decide = |record: &TaskRecord| decide_end(record, end.lease(), end.outcome());
        let decision = if must_read(end) {
            found.next().flatten().as_ref().map(decide)
        } else {
            end.leased_record().map(decide)
        };
        answers.push(match decision.unwrap_or(EndDecision::Answer(Ended::Lost)) {
            EndDecision::Answer(answer) => answer,
            EndDecision::Commit(transition) => {
                places.push((index, transition.to, transition.ready_after));
                transitions.push(transition);
                Ended::Lost
            }
        });
    }
    Ok(Decided { answers, places, transitions })
}

async fn answer<S: EndStore + ?Sized, E: EndReport>(
    store: &S,
    ends: &[E],
    mut answers: Vec<Ended>,
    places: Vec<(usize, TaskState, Option<Duration>)>,
    committed: Vec<Committed>,
) -> Result<Vec<Ended>> {
    let committed = same_number(places.len(), committed)?;
    let mut unclear = Vec::new();
    for ((index, state, due_after), committed) in places.into_iter().zip(committed) {
        match committed {
            Committed::Applied { .. } | Committed::AlreadyApplied => {
                answers[index] = Ended::Recorded { state, due_after };
            }
            Committed::Stale | Committed::Blocked(_) if *ends[index].outcome() == Outcome::Committed => {
                unclear.push(index);
            }
            Committed::Stale | Committed::Blocked(_) => {}
        }
    }
    // The handler's own commit may have become visible only after the first read.
    let records = read(store, unclear.iter().map(|index| &ends[*index])).await?;
    for (index, record) in unclear.into_iter().zip(records) {
        let (lease, outcome) = (ends[index].lease(), ends[index].outcome());
        let recorded = record.and_then(|record| recorded_before(&record, lease, outcome));
        answers[index] = recorded.unwrap_or(Ended::Lost);
    }
    Ok(answers)
}

/// An end that the handler committed itself is not in the record that was leased.
fn must_read(end: &impl EndReport) -> bool {
    end.leased_record().is_none() || *end.outcome() == Outcome::Committed
}

async fn read<'a, S: EndStore + ?Sized, E: EndReport + 'a>(
    store: &S,
    ends: impl Iterator<Item = &'a E>,
) -> Result<Vec<Option<TaskRecord>>> {
    let keys: Vec<TaskKey> = ends.map(|end| end.lease().key.clone()).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    same_number(keys.len(), store.read_records(&keys).await?)
}

/// Another number of answers than members would be matched to the wrong tasks.
fn same_number<T>(asked: usize, answered: Vec<T>) -> Result<Vec<T>> {
    if asked == answered.len() {
        return Ok(answered);
    }
    let reason = format!("the store answered {} of {asked} members of the batch", answered.len());
    Err(Error::Unavailable { reason })
}
