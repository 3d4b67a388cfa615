//! The process that is killed: it opens the store, reads everything in it, and puts load on it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weaver_core::clock::ManualClock;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::LeaseToken;
use weaver_core::lifecycle::{Command, OverdueReason, decide};
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Admin, Expect, QueueSettings};
use weaver_core::queue::Queue;
use weaver_core::time::Timestamp;
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::client::{Client, Planned};
use crate::dice::Dice;
use crate::inspect;
use crate::wire::{Answer, Line, Move, Request};

/// The parameters of a child.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    /// Which of the children of one store this is.
    pub(crate) life: u64,
    /// Start of its clock, in microseconds. The clock is virtual: no lease expires because the machine is
    /// slow.
    pub(crate) starts_at: i64,
    /// Lease calls of earlier lives, to be repeated.
    pub(crate) tokens: Vec<LeaseToken>,
    /// The last cursor of the change stream that a child reported.
    pub(crate) place: Option<(u64, u64)>,
}

/// Clients that put load on the store at the same time.
const CLIENTS: u64 = 5;
pub(crate) const QUEUE_WIDE: &str = "wide";
/// With a concurrency limit: slots that are not released would strand its tasks.
pub(crate) const QUEUE_NARROW: &str = "narrow";
const NARROW_SLOTS: u32 = 3;

/// What the clients of one child share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: EmbeddedStore,
    pub(crate) clock: ManualClock,
    pub(crate) life: u64,
    next_call: AtomicU64,
    /// Tasks that a client may cancel or read.
    pub(crate) known: Mutex<Vec<u64>>,
    /// Lease calls of earlier lives.
    pub(crate) tokens: Mutex<Vec<LeaseToken>>,
}

impl Shared {
    /// Reports a request before it is made.
    pub(crate) fn announce(&self, request: Request) -> u64 {
        let call = self.next_call.fetch_add(1, Ordering::Relaxed);
        say(&Line::Request(call, request));
        call
    }
}

pub(crate) fn answered(call: u64, answer: Answer) {
    say(&Line::Answer(call, answer));
}

/// One write per line: what the parent reads was complete before anything later happened.
pub(crate) fn say(line: &Line) {
    let mut text = serde_json::to_string(line).expect("a line is plain data");
    text.push('\n');
    if std::io::stdout().lock().write_all(text.as_bytes()).is_err() {
        // The parent has exited.
        std::process::exit(3);
    }
}

/// Runs until it is killed.
pub(crate) fn run(orders: &Orders) {
    say(&Line::Opening("begins".to_owned()));
    let clock = ManualClock::new(Timestamp::from_micros(orders.starts_at));
    let store = EmbeddedStore::open_with(
        &orders.directory,
        Arc::new(clock.clone()),
        EmbeddedOptions::default(),
        Arc::new(|step| say(&Line::Opening(step.to_string()))),
    );
    let store = store.unwrap_or_else(|error| panic!("the store does not open: {error}"));
    let shared = Shared {
        store,
        clock,
        life: orders.life,
        next_call: AtomicU64::new(0),
        known: Mutex::default(),
        tokens: Mutex::new(orders.tokens.clone()),
    };
    block_on(prepare(&shared));
    let mut dice = Dice::new(orders.seed);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let client = Client::new(number, dice.bits(), &shared);
            scope.spawn(|| block_on(client.run()));
        }
        scope.spawn(|| block_on(watch(&shared, orders.place)));
    });
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

async fn prepare(shared: &Shared) {
    let snapshots = inspect::records(&shared.store).await.expect("every record can be read");
    for snapshot in &snapshots {
        say(&Line::Saw(snapshot.clone()));
        if !snapshot.state.is_terminal() {
            shared.known.lock().push(snapshot.id);
        }
    }
    let settings =
        QueueSettings { paused: false, max_running: Some(NARROW_SLOTS), ..QueueSettings::default() };
    let narrow = QueueName::new(QUEUE_NARROW).expect("a name");
    let set = shared.store.put_queue(&Namespace::default(), &narrow, settings, Expect::Anything).await;
    set.expect("a queue can be set");
    say(&Line::SawAll(snapshots.len()));
}

/// Reads the stream of changes, and ends expired leases.
async fn watch(shared: &Shared, mut old: Option<(u64, u64)>) {
    let mut after = None;
    loop {
        match shared.store.changes(after, 100).await.expect("changes can be read") {
            Changes::Next { items, next } => {
                after = Some(next);
                let moves: Vec<_> =
                    items.iter().map(|item| (item.key.id.0, item.version.0, item.state)).collect();
                if !moves.is_empty() {
                    say(&Line::Published { moves, next: (next.incarnation, next.position) });
                }
            }
            Changes::Resync { next } => after = Some(next),
        }
        // While this stream is shorter than the old one, any store would notice.
        let length = after.map_or(0, |after| after.position);
        if let Some((incarnation, position)) = old.take_if(|(_, position)| *position < length) {
            let answer = shared.store.changes(Some(ChangeCursor { incarnation, position }), 1).await;
            say(&Line::OldPlace { resync: matches!(answer, Ok(Changes::Resync { .. })) });
        }
        sweep(shared).await;
    }
}

async fn sweep(shared: &Shared) {
    let overdue = shared.store.overdue(50).await.expect("what is overdue can be read");
    let mut lost = Vec::new();
    for found in overdue {
        match found.reason {
            OverdueReason::Hold => {
                let hold = found.record.hold().expect("what is held has a hold");
                let call = shared.announce(Request::Stopped(hold.key.id.0, hold.version.0));
                let answer = shared.store.confirm_stopped(vec![hold]).await;
                answered(
                    call,
                    answer.map_or_else(|error| Answer::Failed(error.to_string()), |()| Answer::Done),
                );
            }
            why => {
                let now = found.record.updated_at;
                let transition = decide(&found.record, Command::Expire(why), now).expect("it has expired");
                lost.push(Planned { transition, reported_as: Move::ExpireLease });
            }
        }
    }
    if lost.is_empty() {
        // Nothing to do: let the clients run, and their leases age.
        shared.clock.advance(Duration::from_micros(100));
        std::thread::yield_now();
    } else {
        crate::client::commit(shared, &lost).await;
    }
}
