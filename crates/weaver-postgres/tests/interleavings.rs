//! One session moves a member of a shared lease in a transaction that is still open when another session
//! moves the same member, or another one of the same lease. Every pair of moves, whichever comes first,
//! whether the first commits or is rolled back: each task is then in exactly one place, has ended at most once,
//! and left its lease at most once.

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection, Row};
use support::OnServer;
use weaver_core::lease::{ContinuationChange, Renewal, Renewed};
use weaver_core::lifecycle::{Command, OverdueReason, decide};
use weaver_core::ports::{Tasks, UnreadableRecords};
use weaver_core::prelude::*;
use weaver_core::quarantine::Discarded;
use weaver_core::queue::Committed;
use weaver_testkit::sample::sample;

/// Of the pairs whose moves do not meet, so many are sampled by a CI run.
const SAMPLE: usize = 20;
const MEMBERS: usize = 4;

/// What happens to members of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    /// They succeed.
    End,
    /// Their attempt fails, and they wait again.
    Retry,
    /// Their lease is over.
    Reclaim,
    Cancel,
    Renew,
    /// A renewal that changes the continuation.
    Confirm,
    /// By the handler's transaction.
    Complete,
    Discard,
}

const MOVES: [Move; 8] = [
    Move::End,
    Move::Retry,
    Move::Reclaim,
    Move::Cancel,
    Move::Renew,
    Move::Confirm,
    Move::Complete,
    Move::Discard,
];

#[derive(Debug, Clone, Copy)]
struct Pair {
    first: Move,
    second: Move,
    /// Whether the second concerns the same task.
    is_same: bool,
    commits: bool,
}

fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for first in MOVES {
        for second in MOVES {
            for is_same in [true, false] {
                pairs.extend([true, false].map(|commits| Pair { first, second, is_same, commits }));
            }
        }
    }
    pairs
}

/// The move of one member in plain SQL, by the functions that the store calls.
fn in_sql(made: Move, lease: &Lease) -> String {
    let (id, token) = (lease.key.id, format!("'{:032x}'::uuid", lease.token.0));
    let held = format!("'default', ARRAY[{id}], ARRAY[2]");
    let renew = |within: &str| {
        format!(
            "SELECT weaver.renew({held}, ARRAY[{token}], ARRAY[0], ARRAY[NULL]::real[], ARRAY[NULL], \
             ARRAY[{within}]::bigint[], ARRAY[false])"
        )
    };
    let retry = |renewals: &str, why: &str| {
        format!(
            "SELECT weaver.retry({held}, ARRAY[0], ARRAY[{token}], ARRAY[{renewals}]::bigint[], \
             ARRAY['{why}'], \
             ARRAY['{why}'], ARRAY[0], ARRAY['x'], 1::smallint)"
        )
    };
    match made {
        Move::End => format!(
            "SELECT weaver.finish({held}, ARRAY[0], ARRAY[{token}], NULL, NULL, NULL, NULL, NULL, NULL, \
             1::smallint)"
        ),
        Move::Retry => retry("NULL", "failed"),
        Move::Reclaim => retry("0", "lost"),
        Move::Cancel => format!(
            "UPDATE weaver.job_runs SET state = 'CANCELED', cause = 'user', version = version + 1, \
             finished_at = now(), \
             updated_at = now(), lease_token = NULL, lease_expires_at = NULL, \
             lease_ttl_us = NULL WHERE id = {id}"
        ),
        Move::Renew => renew("NULL"),
        Move::Confirm => renew("50000000"),
        Move::Complete => {
            format!("SELECT weaver.complete('default', {id}, 2, 0, {token}, NULL, 1::smallint)")
        }
        Move::Discard => {
            format!("SELECT weaver.discard('default', {id}, weaver.raw_run('default', {id}))")
        }
    }
}

/// The same by the store; whether it was applied.
async fn by_store(place: &OnServer, made: Move, held: &Leased) -> bool {
    let commit = async |command| {
        let later = held.record.updated_at.saturating_add(Duration::from_secs(3600));
        let decided = decide(&held.record, command, later).expect("it holds the lease");
        let answers = place.store.commit(vec![decided], None).await.expect("the first does not last");
        matches!(answers[..], [Committed::Applied { .. }])
    };
    let finish = |outcome| Command::Finish { lease: held.lease.clone(), outcome };
    let renew = async |continuation| {
        let renewal = Renewal { continuation, ..Renewal::of(held.lease.clone()) };
        place.store.renew(vec![renewal]).await.expect("the store answers")[0] == Renewed::Extended
    };
    match made {
        Move::End => commit(finish(Outcome::DONE)).await,
        Move::Retry => commit(finish(Outcome::failed("x"))).await,
        Move::Reclaim => commit(Command::Expire(OverdueReason::Lease)).await,
        Move::Cancel => place.store.cancel(&held.lease.key).await.is_ok(),
        Move::Renew => renew(None).await,
        Move::Confirm => {
            renew(Some(ContinuationChange::Confirming { within: Duration::from_secs(50) })).await
        }
        Move::Complete => {
            let mut connection = place.direct.acquire().await.expect("the server answers");
            let mut transaction = connection.begin().await.expect("the server answers");
            let completed = place.store.complete_in(&mut transaction, &held.lease, None).await;
            transaction.commit().await.expect("it commits");
            completed.is_ok()
        }
        Move::Discard => {
            let raw = place.store.raw_task(&held.lease.key).await.expect("the store answers");
            let Some(raw) = raw else { return false };
            place.store.discard_task(&held.lease.key, &raw).await.expect("it answers") == Discarded::Removed
        }
    }
}

/// Waits until a session waits for a lock that this one holds.
async fn until_it_blocks(connection: &mut PgConnection, pid: i32) {
    let text = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
    loop {
        let blocked: i64 =
            sqlx::query_scalar(text).bind(pid).fetch_one(&mut *connection).await.expect("a count");
        if blocked > 0 {
            return;
        }
    }
}

async fn lease(place: &OnServer) -> Vec<Leased> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    place.store.enqueue_batch(vec![NewTask::new("t"); MEMBERS]).await.expect("the store answers");
    let token = LeaseToken(NEXT.fetch_add(1, Ordering::Relaxed).into());
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
    let request = LeaseRequest { max: MEMBERS as u32, slots: MEMBERS as u32, ..request };
    let leased = place.store.lease(request).await.expect("the store answers");
    assert_eq!((leased.len(), place.lease_rows().await), (MEMBERS, 1));
    leased
}

/// Whether both took the task away from its lease, of which only one can succeed.
fn takes_away(made: Move) -> bool {
    !matches!(made, Move::Renew | Move::Confirm)
}

async fn run(place: &OnServer, watcher: &mut PgConnection, pair: Pair) {
    let leased = lease(place).await;
    let keys: Vec<TaskKey> = leased.iter().map(|each| each.lease.key.clone()).collect();
    let mut session = PgConnection::connect(place.schema.server_url()).await.expect("the server answers");
    let pid = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut session).await.expect("a number");
    let mut transaction = session.begin().await.expect("the server answers");
    let text = in_sql(pair.first, &leased[0].lease);
    transaction.execute(place.schema.sql(&text)).await.unwrap_or_else(|error| panic!("{pair:?}: {error}"));
    let second = by_store(place, pair.second, &leased[usize::from(!pair.is_same)]);
    tokio::pin!(second);
    // It is done without waiting, or waits until the first ends.
    let done = tokio::select! {
        is_applied = &mut second => Some(is_applied),
        () = until_it_blocks(watcher, pid) => None,
    };
    match pair.commits {
        true => transaction.commit().await.expect("it commits"),
        false => transaction.rollback().await.expect("it rolls back"),
    }
    let is_applied = match done {
        Some(is_applied) => is_applied,
        None => second.await,
    };
    assert_eq!(place.misplaced().await, 0, "{pair:?}");
    if pair.is_same && pair.commits && takes_away(pair.first) && takes_away(pair.second) {
        // A task that waits again, or was cancelled before it ended, can still be cancelled or removed.
        let is_later = matches!(pair.second, Move::Discard | Move::Cancel);
        assert!(!is_applied || is_later, "{pair:?}: both took it");
    }
    if !(pair.is_same && pair.commits) && done.is_none() && takes_away(pair.second) {
        assert!(is_applied, "{pair:?}: it waited for nothing");
    }
    check_members(place, &keys, pair).await;
    place.finish(&keys).await;
    assert_eq!(place.lease_rows().await, 0, "{pair:?}");
}

/// The untouched members run, and no task has left its lease twice.
async fn check_members(place: &OnServer, keys: &[TaskKey], pair: Pair) {
    let found = place.store.get_tasks(keys).await.expect("the store answers");
    for record in &found[2..] {
        let state = record.as_ref().map(|record| record.state);
        assert_eq!(state, Some(TaskState::Running), "{pair:?}");
    }
    let ids: Vec<i64> = keys.iter().map(|key| key.id.0 as i64).collect();
    let text = "SELECT run_id, count(*) FROM weaver.job_run_attempts WHERE run_id = ANY ($1) GROUP BY 1";
    let attempts = sqlx::query(place.schema.sql(text)).bind(ids).fetch_all(&place.direct).await;
    for row in attempts.expect("the server answers") {
        assert_eq!(row.get::<i64, _>(1), 1, "{pair:?}: task {} left its lease twice", row.get::<i64, _>(0));
    }
    for (at, record) in found[..2].iter().enumerate() {
        let Some(record) = record else {
            assert!([pair.first, pair.second].contains(&Move::Discard), "{pair:?}: task {at} is missing");
            continue;
        };
        let is_due = record.state == TaskState::Running || record.version.0 > 2;
        assert!(is_due, "{pair:?}: {record:?}");
    }
}

#[tokio::test]
async fn of_two_moves_of_one_lease_each_member_is_afterwards_in_one_place_with_one_end() {
    let place = support::on_server().await;
    let mut watcher = PgConnection::connect(place.schema.server_url()).await.expect("the server answers");
    let (meeting, others): (Vec<_>, Vec<_>) =
        pairs().into_iter().partition(|pair| pair.is_same && pair.commits);
    assert_eq!((meeting.len(), others.len()), (64, 192));
    for pair in meeting {
        run(&place, &mut watcher, pair).await;
    }
    for index in sample("pairs of moves", others.len(), SAMPLE) {
        run(&place, &mut watcher, others[index]).await;
    }
    place.schema.drop(&place.direct).await;
}
