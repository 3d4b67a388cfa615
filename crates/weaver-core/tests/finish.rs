//! The finish protocol: one table for its three callers. A worker with a local store has the record that was
//! leased, the server reads it, and `QueueExt::mark` is for users.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use weaver_core::clock::ManualClock;
use weaver_core::lifecycle::{Ended, Refused, Transition};
use weaver_core::outcome::{RESULT_MAX_BYTES, Retry};
use weaver_core::ports::Tasks;
use weaver_core::prelude::*;
use weaver_core::queue::Committed;
use weaver_core::queue::finish::{EndReport, EndStore, finish};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
enum Caller {
    WithRecord,
    WithoutRecord,
    Mark,
}

const CALLERS: [Caller; 3] = [Caller::WithRecord, Caller::WithoutRecord, Caller::Mark];

#[derive(Clone)]
struct Report {
    leased: Leased,
    outcome: Outcome,
    has_record: bool,
}

impl EndReport for Report {
    fn lease(&self) -> &Lease {
        &self.leased.lease
    }

    fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    fn leased_record(&self) -> Option<&TaskRecord> {
        self.has_record.then_some(&self.leased.record)
    }
}

fn report(leased: &Leased, outcome: Outcome, has_record: bool) -> Report {
    Report { leased: leased.clone(), outcome, has_record }
}

/// A store with one task that `ada` has leased.
struct Scene {
    clock: ManualClock,
    store: InMemoryQueue,
    leased: Leased,
}

impl Scene {
    async fn new() -> Self {
        let clock = ManualClock::default();
        let store = InMemoryQueue::new(Arc::new(clock.clone()));
        let policy = RetryPolicy::Fixed { delay: SECOND };
        store.enqueue(NewTask::new("send_email").retry(policy)).await.expect("it is valid");
        let leased = lease(&store, 1).await;
        Self { clock, store, leased }
    }

    async fn report(&self, caller: Caller, leased: &Leased, outcome: Outcome) -> Answer {
        let answers = match caller {
            Caller::WithRecord => finish(&self.store, &[report(leased, outcome, true)]).await,
            Caller::WithoutRecord => finish(&self.store, &[report(leased, outcome, false)]).await,
            Caller::Mark => {
                return match self.store.mark(leased, outcome).await {
                    Ok(()) => Answer::Recorded,
                    Err(Error::Stale { .. }) => Answer::Lost,
                    Err(Error::Refused { refused: Refused::ResultTooLarge { .. }, .. }) => Answer::TooLarge,
                    Err(error) => panic!("{error}"),
                };
            }
        };
        Answer::from(answers.expect("a store in memory answers")[0])
    }

    async fn record(&self) -> TaskRecord {
        self.store.get_task(&self.leased.lease.key).await.expect("it is there")
    }

    /// Leases it after its retry delay, under another token.
    async fn lease_again(&self) -> Leased {
        self.clock.advance(SECOND);
        lease(&self.store, 2).await
    }
}

async fn lease(store: &InMemoryQueue, token: u128) -> Leased {
    let worker = WorkerId::new("ada").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
    store.dequeue_ready(request).await.expect("a store in memory").expect("a task is due")
}

/// The part of [`Ended`] that all three callers report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Recorded,
    Lost,
    TooLarge,
}

impl From<Ended> for Answer {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Recorded { .. } => Self::Recorded,
            Ended::Lost => Self::Lost,
            Ended::ResultTooLarge { .. } => Self::TooLarge,
        }
    }
}

fn every_outcome() -> Vec<Outcome> {
    vec![
        Outcome::DONE,
        Outcome::failed("no route to host"),
        Outcome::Failed { error: "busy".into(), retry: Retry::After(SECOND) },
        Outcome::fatal("no such address"),
        Outcome::TimedOut,
        Outcome::Snoozed { delay: SECOND },
        Outcome::Cancelled { message: "not needed".into() },
        Outcome::Released,
        Outcome::Committed,
    ]
}

#[tokio::test]
async fn a_repeated_report_gets_the_same_answer_and_changes_nothing() {
    for caller in CALLERS {
        for outcome in every_outcome() {
            let scene = Scene::new().await;
            let tell = async || scene.report(caller, &scene.leased, outcome.clone()).await;
            assert_eq!(tell().await, Answer::Recorded, "{caller:?} {outcome:?}");
            let recorded = scene.record().await;
            assert_eq!(tell().await, Answer::Recorded, "{caller:?} {outcome:?} again");
            assert_eq!(scene.record().await, recorded);
            if recorded.state == TaskState::RetryScheduled {
                let next = scene.lease_again().await;
                assert_eq!(tell().await, Answer::Recorded, "{caller:?} {outcome:?} after it moved on");
                assert_eq!(scene.record().await, next.record);
            }
        }
    }
}

#[tokio::test]
async fn whether_a_second_report_is_the_same_end_does_not_depend_on_the_caller() {
    for first in every_outcome() {
        for second in every_outcome() {
            for moves_on in [false, true] {
                let mut answers = Vec::new();
                for caller in CALLERS {
                    let scene = Scene::new().await;
                    scene.report(Caller::WithoutRecord, &scene.leased, first.clone()).await;
                    let recorded = scene.record().await;
                    if moves_on && recorded.state == TaskState::RetryScheduled {
                        scene.lease_again().await;
                    }
                    answers.push(scene.report(caller, &scene.leased, second.clone()).await);
                }
                let same = answers.iter().all(|answer| *answer == answers[0]);
                assert!(same, "{first:?} then {second:?}, moved on {moves_on}: {answers:?}");
                let is_one_end = |outcome: &Outcome| *outcome == Outcome::DONE;
                if is_one_end(&first) != is_one_end(&second) && second != Outcome::Committed {
                    assert_eq!(answers[0], Answer::Lost, "{first:?} then {second:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_report_under_a_lost_lease_is_lost_whatever_it_says() {
    for caller in CALLERS {
        for outcome in every_outcome() {
            let scene = Scene::new().await;
            scene.clock.advance(scene.leased.lease.ttl + SECOND);
            let overdue = scene.store.overdue(10).await.expect("a store in memory").remove(0);
            let expire = weaver_core::lifecycle::Command::Expire(overdue.reason);
            scene.store.change(&scene.leased.lease.key, expire).await.expect("its lease has expired");
            let before = scene.record().await;
            let answer = scene.report(caller, &scene.leased, outcome.clone()).await;
            assert_eq!(answer, Answer::Lost, "{caller:?} {outcome:?}");
            assert_eq!(scene.record().await, before);
        }
    }
}

#[tokio::test]
async fn a_report_about_a_cancelled_task_is_lost() {
    for caller in CALLERS {
        for outcome in every_outcome() {
            let scene = Scene::new().await;
            scene.store.cancel(&scene.leased.lease.key).await.expect("it runs");
            let answer = scene.report(caller, &scene.leased, outcome.clone()).await;
            assert_eq!(answer, Answer::Lost, "{caller:?} {outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_report_with_another_workers_name_is_lost_before_and_after_the_end() {
    for caller in CALLERS {
        let scene = Scene::new().await;
        let mut stolen = scene.leased.clone();
        stolen.lease.worker = WorkerId::new("eve").expect("a name");
        assert_eq!(scene.report(caller, &stolen, Outcome::DONE).await, Answer::Lost, "{caller:?}");
        assert_eq!(scene.record().await.state, TaskState::Running);
        assert_eq!(scene.report(caller, &scene.leased, Outcome::DONE).await, Answer::Recorded);
        assert_eq!(
            scene.report(caller, &stolen, Outcome::DONE).await,
            Answer::Lost,
            "{caller:?} after the end"
        );
    }
}

#[tokio::test]
async fn what_a_handler_committed_is_a_success_and_what_it_did_not_commit_a_failure() {
    for caller in CALLERS {
        let scene = Scene::new().await;
        scene.store.mark_succeeded(&scene.leased, None).await.expect("the handler's own transaction");
        assert_eq!(
            scene.report(caller, &scene.leased, Outcome::Committed).await,
            Answer::Recorded,
            "{caller:?}"
        );
        assert_eq!(scene.record().await.state, TaskState::Succeeded);

        let scene = Scene::new().await;
        assert_eq!(
            scene.report(caller, &scene.leased, Outcome::Committed).await,
            Answer::Recorded,
            "{caller:?}"
        );
        let record = scene.record().await;
        assert_eq!((record.state, record.failures), (TaskState::RetryScheduled, 1), "{caller:?}");
    }
}

#[tokio::test]
async fn a_result_too_large_is_refused_and_the_task_still_runs() {
    for caller in CALLERS {
        let scene = Scene::new().await;
        let result = Some(Bytes::from(vec![b'x'; RESULT_MAX_BYTES + 1]));
        let answer = scene.report(caller, &scene.leased, Outcome::Succeeded { result }).await;
        assert_eq!(answer, Answer::TooLarge, "{caller:?}");
        assert_eq!(scene.report(caller, &scene.leased, Outcome::fatal("too large")).await, Answer::Recorded);
    }
}

#[tokio::test]
async fn one_bad_member_of_a_batch_changes_nothing_for_the_others() {
    for has_record in [true, false] {
        let scene = Scene::new().await;
        for _ in 0..4 {
            scene.store.enqueue(NewTask::new("send_email")).await.expect("it is valid");
        }
        let mut ends = Vec::new();
        for token in 2..6 {
            ends.push(report(&lease(&scene.store, token).await, Outcome::DONE, has_record));
        }
        ends[0].leased.lease.key.id = TaskId(99);
        ends[1].leased.lease.token = LeaseToken(99);
        ends[2].outcome = Outcome::Succeeded { result: Some(vec![0; RESULT_MAX_BYTES + 1].into()) };
        ends.push(report(&scene.leased, Outcome::DONE, has_record));
        let answers = finish(&scene.store, &ends).await.expect("a store in memory answers");
        let answers: Vec<Answer> = answers.into_iter().map(Answer::from).collect();
        let (lost, recorded) = (Answer::Lost, Answer::Recorded);
        assert_eq!(
            answers,
            [lost, lost, Answer::TooLarge, recorded, recorded],
            "with its record: {has_record}"
        );
    }
}

/// Counts calls, and leaves members out of the answers.
struct Watched<'a> {
    store: &'a InMemoryQueue,
    reads: AtomicUsize,
    commits: AtomicUsize,
    /// Answers to leave out: of reads, of commits.
    missing: (usize, usize),
    /// Ends the task between the first read and the commit.
    ends_meanwhile: Option<&'a Leased>,
}

impl<'a> Watched<'a> {
    fn new(store: &'a InMemoryQueue) -> Self {
        Self { store, reads: 0.into(), commits: 0.into(), missing: (0, 0), ends_meanwhile: None }
    }

    fn calls(&self) -> (usize, usize) {
        (self.reads.load(Ordering::Relaxed), self.commits.load(Ordering::Relaxed))
    }
}

impl EndStore for Watched<'_> {
    async fn read_records(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut records = self.store.get_tasks(keys).await?;
        records.truncate(records.len() - self.missing.0);
        if let Some(leased) = self.ends_meanwhile {
            self.store.mark_succeeded(leased, None).await?;
        }
        Ok(records)
    }

    async fn commit_ends(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.store.commit(transitions, None).await?;
        answers.truncate(answers.len() - self.missing.1);
        Ok(answers)
    }
}

#[tokio::test]
async fn a_report_with_its_record_costs_one_store_call_and_one_without_costs_two() {
    for (has_record, outcome, expected) in [
        (true, Outcome::DONE, (0, 1)),
        (false, Outcome::DONE, (1, 1)),
        (true, Outcome::Committed, (1, 1)),
        (false, Outcome::Committed, (1, 1)),
    ] {
        let scene = Scene::new().await;
        let store = Watched::new(&scene.store);
        finish(&store, &[report(&scene.leased, outcome, has_record)]).await.expect("it answers");
        assert_eq!(store.calls(), expected, "with its record: {has_record}");
    }
    let scene = Scene::new().await;
    let store = Watched::new(&scene.store);
    assert_eq!(finish::<_, Report>(&store, &[]).await, Ok(Vec::new()));
    assert_eq!(store.calls(), (0, 0), "nothing reported, nothing asked");
}

#[tokio::test]
async fn a_handlers_commit_that_lands_after_the_read_is_read_back() {
    for has_record in [true, false] {
        let scene = Scene::new().await;
        let store = Watched { ends_meanwhile: Some(&scene.leased), ..Watched::new(&scene.store) };
        let ends = [report(&scene.leased, Outcome::Committed, has_record)];
        let recorded = Ended::Recorded { state: TaskState::Succeeded, due_after: None };
        assert_eq!(finish(&store, &ends).await, Ok(vec![recorded]), "with its record: {has_record}");
        assert_eq!(store.calls(), (2, 1));
    }
}

#[tokio::test]
async fn a_store_that_answers_fewer_members_is_unavailable_and_the_report_can_be_retried() {
    for (has_record, missing) in [(true, (0, 1)), (false, (0, 1)), (false, (1, 0))] {
        let scene = Scene::new().await;
        let ends = [report(&scene.leased, Outcome::DONE, has_record)];
        let store = Watched { missing, ..Watched::new(&scene.store) };
        let answer = finish(&store, &ends).await;
        assert!(matches!(answer, Err(Error::Unavailable { .. })), "{missing:?}: {answer:?}");
        let answers = finish(&scene.store, &ends).await.expect("it answers");
        assert_eq!(Answer::from(answers[0]), Answer::Recorded);
    }
}
