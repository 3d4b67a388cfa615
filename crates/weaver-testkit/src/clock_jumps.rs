//! The wall clock is set while a local store is open: durations are unaffected, instants follow the clock
//! (ADR-0043). For the in-memory and embedded stores, which have no server clock.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weaver_core::clock::{Clock, ManualClock, Sleep};
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::OverdueReason;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::Store;
use weaver_core::queue::{Interest, QueueExt, Wake};
use weaver_core::task::{NewTask, TaskState};
use weaver_core::time::{Monotonic, Timestamp};

/// How far the wall clock is set.
pub const HOUR: Duration = Duration::from_secs(3600);

/// Sets the clock: [`ManualClock::set_back`] or [`ManualClock::set_forward`].
pub type Set = fn(&ManualClock, Duration);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Leases all due tasks for 20 s.
pub async fn lease(store: &Arc<dyn Store>, token: u128) -> Vec<Leased> {
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
    let request = LeaseRequest { max: 10, slots: 10, ttl: seconds(20), ..request };
    store.lease(request).await.expect("it answers")
}

async fn overdue(store: &Arc<dyn Store>) -> Vec<OverdueReason> {
    store.overdue(10).await.expect("it answers").iter().map(|overdue| overdue.reason).collect()
}

/// A lease, a delay, a backoff and a cancellation hold last exactly as long as specified, and an immediate
/// task is due at once.
pub async fn spans_last_as_promised(clock: ManualClock, store: Arc<dyn Store>, set: Set) {
    let enqueue = async |task: NewTask| store.enqueue(task).await.expect("stored").key;
    enqueue(NewTask::new("leased")).await;
    let held = enqueue(NewTask::new("held")).await;
    enqueue(NewTask::new("snoozed")).await;
    let leased = lease(&store, 1).await;
    assert_eq!(leased.len(), 3);
    store.cancel(&held).await.expect("it is running");
    let snoozed = leased.iter().find(|leased| leased.record.spec.envelope.task_type.as_str() == "snoozed");
    store
        .mark(snoozed.expect("it is leased"), Outcome::Snoozed { delay: seconds(6) })
        .await
        .expect("recorded");
    enqueue(NewTask::new("delayed").delay(seconds(6))).await;

    clock.advance(seconds(1));
    set(&clock, HOUR);
    enqueue(NewTask::new("immediate")).await;
    assert_eq!(lease(&store, 2).await.len(), 1, "a span of zero is due at once, and nothing else is");
    clock.advance(seconds(5) - Duration::from_micros(1));
    assert!(lease(&store, 3).await.is_empty(), "not before their 6 s");
    clock.advance(Duration::from_micros(1));
    assert_eq!(lease(&store, 4).await.len(), 2, "after 6 s, the delayed and the snoozed");
    clock.advance(seconds(14) - Duration::from_micros(1));
    assert!(overdue(&store).await.is_empty(), "not before their 20 s");
    clock.advance(Duration::from_micros(1));
    assert_eq!(
        overdue(&store).await,
        [OverdueReason::Lease, OverdueReason::Hold],
        "after 20 s, the lease and the hold"
    );
}

/// `run_at` and `expires_at` are due when the wall clock says so, and what was due stays due.
pub async fn instants_follow_the_wall_clock(clock: ManualClock, store: Arc<dyn Store>) {
    let enqueue = async |task: NewTask| store.enqueue(task).await.expect("stored").key;
    let begin = clock.now();
    let at = |span: Duration| begin.saturating_add(span);
    let appointed = enqueue(NewTask::new("appointed").run_at(at(2 * HOUR))).await;
    clock.set_back(HOUR);
    let soon = enqueue(NewTask::new("soon").run_at(at(seconds(0)))).await;
    clock.advance(seconds(60));
    assert!(lease(&store, 1).await.is_empty(), "the wall clock has come to neither");
    assert_eq!(store.get_task(&soon).await.expect("there").state, TaskState::Scheduled);
    clock.set_forward(3 * HOUR);
    let keys: Vec<_> = lease(&store, 2).await.into_iter().map(|leased| leased.lease.key).collect();
    assert_eq!(keys, [soon, appointed], "in the order of their instants");
    let expiring = enqueue(NewTask::new("expiring").expires_at(at(5 * HOUR))).await;
    clock.set_forward(4 * HOUR);
    assert_eq!(overdue(&store).await, [OverdueReason::ExpiresAt]);
    assert!(lease(&store, 3).await.is_empty(), "it has expired by the wall clock");
    clock.set_back(4 * HOUR);
    assert!(overdue(&store).await.is_empty(), "it has not, any more");
    assert_eq!(lease(&store, 4).await[0].lease.key, expiring);
}

/// Timestamps never go backwards, and the time between two of them is time that really passed.
pub async fn stamps_never_go_back(clock: ManualClock, store: Arc<dyn Store>) {
    let mut last = None;
    for turn in 0..10 {
        let key = store.enqueue(NewTask::new("t")).await.expect("stored").key;
        let created_at = store.get_task(&key).await.expect("there").created_at;
        if let Some(last) = last {
            assert_eq!(created_at.since(last), seconds(1), "turn {turn}");
        }
        last = Some(created_at);
        if turn % 2 == 0 {
            clock.set_back(HOUR);
        } else {
            clock.set_forward(3 * HOUR);
        }
        clock.advance(seconds(1));
    }
}

/// More than any store reads its clock before a waiter sleeps.
const READINGS: usize = 8;

/// A clock that stands still and moves once, ten seconds forward: just before a certain reading, or on
/// request.
#[derive(Debug)]
struct MovesOnce {
    inner: ManualClock,
    /// How many readings are left before it moves; nothing before it counts, and once it has moved.
    left: Mutex<Option<usize>>,
}

impl MovesOnce {
    fn move_now(&self) {
        if self.left.lock().take().is_some() {
            self.inner.advance(seconds(10));
        }
    }

    fn read(&self) -> &ManualClock {
        let is_time = match &mut *self.left.lock() {
            None => false,
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
        };
        if is_time {
            self.move_now();
        }
        &self.inner
    }
}

impl Clock for MovesOnce {
    fn now(&self) -> Timestamp {
        self.read().now()
    }

    fn monotonic(&self) -> Monotonic {
        self.read().monotonic()
    }

    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        self.inner.sleep_until(deadline)
    }
}

/// A waiter is woken when a task becomes due, between whichever two readings of the clock that happens: a
/// duration computed from one reading is not added to a later one.
pub async fn a_due_task_wakes_a_waiter_whenever_the_clock_moves(
    open: impl Fn(Arc<dyn Clock>) -> Arc<dyn Store>,
) {
    for readings in 0..READINGS {
        let clock = Arc::new(MovesOnce { inner: ManualClock::default(), left: Mutex::new(None) });
        let theirs: Arc<dyn Clock> = clock.clone();
        let store = open(theirs);
        store.enqueue(NewTask::new("delayed").delay(seconds(10))).await.expect("stored");
        *clock.left.lock() = Some(readings);
        let (namespace, queues) = (Namespace::default(), vec![QueueName::default()]);
        let interest = Interest::Work { namespace, queues, types: None, fragile: true };
        let moves_at_last = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            clock.move_now();
        };
        let (wake, ()) = tokio::join!(store.wait(interest, HOUR), moves_at_last);
        assert_eq!(wake.expect("it answers"), Wake::Ready);
    }
}
