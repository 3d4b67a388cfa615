//! The process that gets killed: it opens the store, reads everything in it, and puts load on it until it is
//! no more.

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
use weaver_core::lifecycle::{Command, OverdueWhy, decide};
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Admin, Expect, QueueSettings};
use weaver_core::queue::Queue;
use weaver_core::time::Timestamp;
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::client::{Client, Planned};
use crate::dice::Dice;
use crate::inspect;
use crate::wire::{Ask, Line, Move, Told};

/// What a child is told when it is born.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    /// Which of the children of one store this is.
    pub(crate) life: u64,
    /// What its clock shows at first, in microseconds. Time is the children's own: a loaded machine takes no
    /// lease away.
    pub(crate) starts_at: i64,
    /// Lease calls of earlier lives, to be repeated.
    pub(crate) tokens: Vec<LeaseToken>,
    /// The last place in the stream of changes that anybody saw.
    pub(crate) place: Option<(u64, u64)>,
}

/// Clients that put load on the store at the same time.
const CLIENTS: u64 = 5;
pub(crate) const QUEUE_WIDE: &str = "wide";
/// With a limit: slots that are not given back would strand its tasks.
pub(crate) const QUEUE_NARROW: &str = "narrow";
const NARROW_SLOTS: u32 = 3;

/// What the clients of one child share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: EmbeddedStore,
    pub(crate) clock: ManualClock,
    pub(crate) life: u64,
    next_call: AtomicU64,
    /// Tasks that somebody may want to cancel or look at.
    pub(crate) known: Mutex<Vec<u64>>,
    /// Lease calls of earlier lives.
    pub(crate) tokens: Mutex<Vec<LeaseToken>>,
}

impl Shared {
    /// Says what is about to be asked.
    pub(crate) fn ask(&self, ask: Ask) -> u64 {
        let call = self.next_call.fetch_add(1, Ordering::Relaxed);
        say(&Line::Ask(call, ask));
        call
    }
}

/// Says what was answered.
pub(crate) fn told(call: u64, told: Told) {
    say(&Line::Told(call, told));
}

/// One line, one write: what the parent can read was complete before anything later happened.
pub(crate) fn say(line: &Line) {
    let mut text = serde_json::to_string(line).expect("a line is plain data");
    text.push('\n');
    if std::io::stdout().lock().write_all(text.as_bytes()).is_err() {
        // Nobody listens: the parent is gone, and so should this be.
        std::process::exit(3);
    }
}

/// Lives until it is killed.
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
    let sights = inspect::records(&shared.store).await.expect("every record can be read");
    for sight in &sights {
        say(&Line::Saw(sight.clone()));
        if !sight.state.is_terminal() {
            shared.known.lock().push(sight.id);
        }
    }
    let settings = QueueSettings { paused: false, max_running: Some(NARROW_SLOTS) };
    let narrow = QueueName::new(QUEUE_NARROW).expect("a name");
    let set = shared.store.put_queue(&Namespace::default(), &narrow, settings, Expect::Anything).await;
    set.expect("a queue can be set");
    say(&Line::SawAll(sights.len()));
}

/// Reads the stream of changes, and takes leases away that have run out.
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
        // Before this stream is as long as the old one was, any store would notice.
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
        match found.why {
            OverdueWhy::Hold => {
                let hold = found.record.hold().expect("what is held has a hold");
                let call = shared.ask(Ask::Stopped(hold.key.id.0, hold.version.0));
                let answer = shared.store.confirm_stopped(vec![hold]).await;
                told(call, answer.map_or_else(|error| Told::Failed(error.to_string()), |()| Told::Done));
            }
            why => {
                let now = found.record.updated_at;
                let transition = decide(&found.record, Command::Expire(why), now).expect("it has expired");
                lost.push(Planned { transition, told_as: Move::Lose });
            }
        }
    }
    if lost.is_empty() {
        // Nothing to do: a moment for the others, and for their leases.
        shared.clock.advance(Duration::from_micros(100));
        std::thread::yield_now();
    } else {
        crate::client::commit(shared, &lost).await;
    }
}
