//! Tests of the checker: each kind of violation, written by hand, is found.

use libtest_mimic::Trial;
use weaver_core::id::LeaseToken;
use weaver_core::task::{AttemptOutcome, TaskState};

use crate::checker::check;
use crate::wire::{Answer, Line, Member, Move, Request, Snapshot, Verdict};

macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<Trial> {
            vec![$(Trial::test(concat!("checker::", stringify!($name)), || {
                $name();
                Ok(())
            })),*]
        }
    };
}

trials![
    a_history_that_keeps_every_promise_passes,
    what_was_never_answered_may_have_happened_or_not,
    a_lost_task_is_found,
    a_task_that_was_never_enqueued_is_found,
    half_a_batch_is_found,
    an_end_that_was_forgotten_is_found,
    a_second_end_of_one_version_is_found,
    a_move_after_the_end_is_found,
    a_result_that_changed_is_found,
    a_loss_that_was_not_counted_is_found,
    a_renewal_that_was_forgotten_is_found,
    a_hold_that_came_back_is_found,
    a_published_move_that_is_not_there_is_found,
    a_unique_key_with_two_tasks_is_found,
    a_document_that_went_back_is_found,
    a_lost_or_reordered_entry_is_found,
    an_error_is_found,
];

const TOKEN: LeaseToken = LeaseToken(7);

fn member(nonce: u64) -> Member {
    Member {
        nonce,
        queue: "wide".to_owned(),
        max_attempts: 3,
        max_losses: 1,
        delayed: false,
        serial: None,
        unique: None,
        group: None,
    }
}

fn queued(id: u64, nonce: u64) -> Snapshot {
    Snapshot {
        id,
        nonce: Some(nonce),
        queue: "wide".to_owned(),
        group: None,
        version: 1,
        state: TaskState::Queued,
        cause: None,
        counts: [0; 4],
        renewals: 0,
        token: None,
        result: None,
        error: None,
        attempts: Vec::new(),
    }
}

fn running() -> Snapshot {
    Snapshot {
        version: 2,
        state: TaskState::Running,
        counts: [1, 0, 0, 1],
        token: Some(TOKEN),
        ..queued(1, 11)
    }
}

fn succeeded() -> Snapshot {
    let attempts = vec![(2, AttemptOutcome::Succeeded)];
    let result = Some("r".to_owned());
    Snapshot { version: 3, state: TaskState::Succeeded, token: None, result, attempts, ..running() }
}

fn success() -> Request {
    Request::Commit(vec![(1, 2, Move::Succeed("r".to_owned()))])
}

fn put(after: Option<u64>, body: &str) -> Request {
    Request::Put { id: "document0".to_owned(), after, body: body.to_owned() }
}

fn document(version: u64, body: &str) -> Line {
    Line::SawDocument { id: "document0".to_owned(), found: Some((version, body.to_owned())) }
}

fn stream(bodies: &[&str]) -> Line {
    let entries = (1..).zip(bodies.iter().map(|body| (*body).to_owned())).collect();
    Line::SawStream { stream: "stream0".to_owned(), entries }
}

fn append(bodies: &[&str]) -> Request {
    let bodies = bodies.iter().map(|body| (*body).to_owned()).collect();
    Request::Append { stream: "stream0".to_owned(), bodies }
}

/// Calls and their answers, one after the other.
fn calls(calls: impl IntoIterator<Item = (Request, Answer)>) -> Vec<Line> {
    let numbered = (0..).zip(calls);
    numbered
        .flat_map(|(call, (request, answer))| [Line::Request(call, request), Line::Answer(call, answer)])
        .collect()
}

/// Two tasks, one of which ran well.
fn life() -> Vec<Line> {
    let mut lines = calls([
        (Request::Enqueue(vec![member(11), member(12)]), Answer::Enqueued(vec![(1, false), (2, false)])),
        (Request::Lease(TOKEN), Answer::Leased(vec![running()])),
        (success(), Answer::Committed(vec![Verdict::Applied(3)])),
        (put(None, "one"), Answer::Version(1)),
        (put(Some(1), "two"), Answer::Version(2)),
        (append(&["a", "b"]), Answer::Appended(2)),
        (append(&["c"]), Answer::Appended(3)),
    ]);
    let moves = vec![(1, 1, TaskState::Queued), (1, 2, TaskState::Running), (1, 3, TaskState::Succeeded)];
    lines.push(Line::Published { moves, next: (1, 3) });
    lines
}

/// What is there in the end.
fn end(snapshots: &[Snapshot]) -> Vec<Line> {
    let mut lines: Vec<Line> = snapshots.iter().cloned().map(Line::Saw).collect();
    lines.extend([Line::SawAll(snapshots.len()), document(2, "two"), stream(&["a", "b", "c"])]);
    lines
}

fn good_end() -> Vec<Line> {
    end(&[succeeded(), queued(2, 12)])
}

#[track_caller]
fn breaks(guarantee: &str, lives: &[Vec<Line>]) {
    let found = check(lives);
    assert!(found.iter().any(|violation| violation.guarantee == guarantee), "{found:?}");
}

#[track_caller]
fn passes(lives: &[Vec<Line>]) {
    assert_eq!(check(lives), []);
}

fn a_history_that_keeps_every_promise_passes() {
    passes(&[life(), good_end()]);
}

fn what_was_never_answered_may_have_happened_or_not() {
    let mut lines = life();
    lines.truncate(4);
    lines.extend([
        Line::Request(90, success()),
        Line::Request(91, append(&["x", "y"])),
        Line::Request(92, put(None, "one")),
    ]);
    let unheard = |snapshot: Snapshot, bodies: &[&str], found: Option<(u64, String)>| {
        let mut lines = vec![Line::Saw(snapshot), Line::Saw(queued(2, 12)), Line::SawAll(2), stream(bodies)];
        lines.push(Line::SawDocument { id: "document0".to_owned(), found });
        lines
    };
    passes(&[lines.clone(), unheard(running(), &[], None)]);
    passes(&[lines.clone(), unheard(succeeded(), &["x", "y"], Some((1, "one".to_owned())))]);
    breaks("G1", &[lines, unheard(running(), &["x"], None)]);
}

fn a_lost_task_is_found() {
    breaks("G1", &[life(), end(&[succeeded()])]);
}

fn a_task_that_was_never_enqueued_is_found() {
    breaks("G1", &[life(), end(&[succeeded(), queued(2, 12), queued(3, 13)])]);
}

fn half_a_batch_is_found() {
    let mut lines = life();
    lines.push(Line::Request(90, Request::Enqueue(vec![member(13), member(14)])));
    passes(&[lines.clone(), good_end()]);
    passes(&[lines.clone(), end(&[succeeded(), queued(2, 12), queued(3, 13), queued(4, 14)])]);
    breaks("G1", &[lines, end(&[succeeded(), queued(2, 12), queued(3, 13)])]);
}

fn an_end_that_was_forgotten_is_found() {
    breaks("G1", &[life(), end(&[running(), queued(2, 12)])]);
}

fn a_second_end_of_one_version_is_found() {
    let failure = Request::Commit(vec![(1, 2, Move::Fail("e".to_owned()))]);
    let later = calls([(failure, Answer::Committed(vec![Verdict::Applied(3)]))]);
    breaks("G2", &[life(), later, good_end()]);
}

fn a_move_after_the_end_is_found() {
    let later =
        calls([(Request::Commit(vec![(1, 3, Move::Cancel)]), Answer::Committed(vec![Verdict::Applied(4)]))]);
    let cancelled = Snapshot { version: 4, state: TaskState::Cancelled, ..succeeded() };
    breaks("G4", &[life(), later, end(&[cancelled, queued(2, 12)])]);
}

fn a_result_that_changed_is_found() {
    let other = Snapshot { result: Some("other".to_owned()), ..succeeded() };
    breaks("G1", &[life(), end(&[other, queued(2, 12)])]);
}

fn a_loss_that_was_not_counted_is_found() {
    let mut lines = life();
    lines.truncate(4);
    let lose = Request::Commit(vec![(1, 2, Move::ExpireLease)]);
    let later = calls([(lose, Answer::Committed(vec![Verdict::Applied(3)]))]);
    let lost = |losses| {
        let counts = [1, 0, losses, 1];
        let (cause, error) = (
            Some(weaver_core::task::Cause::Lost),
            Some("lease expired: worker w did not renew it".to_owned()),
        );
        let attempts = vec![(2, AttemptOutcome::Lost)];
        let state = TaskState::RetryScheduled;
        let snapshot =
            Snapshot { version: 3, state, cause, error, attempts, counts, token: None, ..running() };
        vec![Line::Saw(snapshot), Line::Saw(queued(2, 12)), Line::SawAll(2)]
    };
    passes(&[lines.clone(), later.clone(), lost(1)]);
    breaks("G5", &[lines, later, lost(0)]);
}

fn a_renewal_that_was_forgotten_is_found() {
    let mut lines = life();
    lines.truncate(4);
    lines.extend([
        Line::Request(90, Request::Renew(1, 2)),
        Line::Answer(90, Answer::Renewed { extended: true }),
    ]);
    let found = |renewals| {
        let running = Snapshot { renewals, ..running() };
        vec![Line::Saw(running), Line::Saw(queued(2, 12)), Line::SawAll(2)]
    };
    passes(&[lines.clone(), found(1)]);
    breaks("G1", &[lines, found(0)]);
}

fn a_hold_that_came_back_is_found() {
    let mut lines = life();
    lines.truncate(4);
    lines.extend([
        Line::Request(90, Request::Commit(vec![(1, 2, Move::Cancel)])),
        Line::Answer(90, Answer::Committed(vec![Verdict::Applied(3)])),
    ]);
    let stopped = [Line::Request(91, Request::Stopped(1, 2)), Line::Answer(91, Answer::Done)];
    let found = |token| {
        let cause = Some(weaver_core::task::Cause::Cancelled(weaver_core::task::CancelReason::User));
        let attempts = vec![(2, AttemptOutcome::Cancelled)];
        let snapshot =
            Snapshot { version: 3, state: TaskState::Cancelled, cause, attempts, token, ..running() };
        vec![Line::Saw(snapshot), Line::Saw(queued(2, 12)), Line::SawAll(2)]
    };
    passes(&[lines.clone(), found(Some(TOKEN))]);
    breaks("G1", &[lines.clone(), found(None)]);
    lines.extend(stopped);
    passes(&[lines.clone(), found(None)]);
    breaks("G1", &[lines, found(Some(TOKEN))]);
}

fn a_published_move_that_is_not_there_is_found() {
    let published = |moves| vec![Line::Published { moves, next: (1, 1) }];
    breaks("G1", &[life(), published(vec![(2, 2, TaskState::Running)]), good_end()]);
    breaks("G10", &[life(), published(vec![(2, 1, TaskState::Scheduled)]), good_end()]);
    let gap = vec![(1, 1, TaskState::Queued), (1, 3, TaskState::Succeeded)];
    breaks("G10", &[life(), published(gap), good_end()]);
    breaks("G10", &[life(), vec![Line::OldPlace { resync: false }], good_end()]);
}

fn a_unique_key_with_two_tasks_is_found() {
    let unique = |nonce| Request::Enqueue(vec![Member { unique: Some("u".to_owned()), ..member(nonce) }]);
    let lines = |second| {
        calls([
            (unique(11), Answer::Enqueued(vec![(1, false)])),
            (unique(12), Answer::Enqueued(vec![second])),
        ])
    };
    passes(&[lines((1, true)), vec![Line::Saw(queued(1, 11)), Line::SawAll(1)]]);
    let both = vec![Line::Saw(queued(1, 11)), Line::Saw(queued(2, 12)), Line::SawAll(2)];
    breaks("G8", &[lines((2, false)), both]);
}

fn a_document_that_went_back_is_found() {
    let end_with = |line| {
        let mut lines = good_end();
        lines[3] = line;
        lines
    };
    passes(&[life(), end_with(document(2, "two"))]);
    breaks("G1", &[life(), end_with(document(1, "one"))]);
    breaks("G1", &[life(), end_with(document(2, "one"))]);
    breaks("G1", &[life(), end_with(Line::SawDocument { id: "document0".to_owned(), found: None })]);
}

fn a_lost_or_reordered_entry_is_found() {
    for bodies in [&["a", "b"][..], &["a", "c", "b"], &["c", "a", "b"], &["a", "b", "c", "d"]] {
        let mut lines = good_end();
        lines[4] = stream(bodies);
        breaks("G1", &[life(), lines]);
    }
}

fn an_error_is_found() {
    let later = calls([(Request::Lease(LeaseToken(8)), Answer::Failed("no".to_owned()))]);
    breaks("G1", &[life(), later, good_end()]);
}
