//! The writer thread: collects waiting requests into batches for the engine's group commit.
//!
//! In simulation there is no thread: each call is a batch of its own, run by its caller, so that a seed
//! replays exactly.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::engine::{Engine, Request};

/// What runs the engine.
pub(crate) enum Writer {
    Thread {
        inbox: Arc<Inbox>,
        thread: Option<JoinHandle<()>>,
    },
    /// The caller of each request.
    Caller(Box<Mutex<Engine>>),
}

#[derive(Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

/// How long the writer waits for the next requests of callers it has just answered: a fraction of an fsync.
const LINGER: Duration = Duration::from_micros(100);

/// An operation that runs between batches.
pub(crate) type Exclusive = Box<dyn FnOnce(&mut Engine) + Send>;

/// What the writer does next.
enum Next {
    Batch(Vec<Request>),
    Exclusive(Exclusive),
}

#[derive(Default)]
struct Waiting {
    requests: Vec<Request>,
    exclusive: Vec<Exclusive>,
    /// The writer is notified when this many requests wait.
    enough: usize,
    stop: bool,
}

impl Writer {
    pub(crate) fn thread(mut engine: Engine) -> std::io::Result<Self> {
        let inbox = Arc::new(Inbox::default());
        let theirs = Arc::clone(&inbox);
        let builder = std::thread::Builder::new().name("weaver-embedded".to_owned());
        let thread = builder.spawn(move || {
            let mut answered = 0;
            while let Some(next) = theirs.next(engine.has_background_work(), answered) {
                match next {
                    Next::Batch(requests) => {
                        answered = requests.len();
                        engine.process(requests);
                    }
                    Next::Exclusive(act) => act(&mut engine),
                }
            }
        })?;
        Ok(Self::Thread { inbox, thread: Some(thread) })
    }

    pub(crate) fn caller(engine: Engine) -> Self {
        Self::Caller(Box::new(Mutex::new(engine)))
    }

    pub(crate) fn submit_exclusive(&self, act: Exclusive) {
        match self {
            Self::Thread { inbox, .. } => {
                inbox.waiting.lock().exclusive.push(act);
                inbox.filled.notify_one();
            }
            Self::Caller(engine) => act(&mut engine.lock()),
        }
    }

    pub(crate) fn submit(&self, request: Request) {
        match self {
            Self::Thread { inbox, .. } => inbox.put(request),
            Self::Caller(engine) => engine.lock().process(vec![request]),
        }
    }
}

impl Inbox {
    fn put(&self, request: Request) {
        let mut waiting = self.waiting.lock();
        waiting.requests.push(request);
        // Several requests may arrive before the writer wakes: it is notified once.
        let count = waiting.requests.len();
        if count == waiting.enough.max(1) {
            drop(waiting);
            self.filled.notify_one();
        }
    }

    /// The next batch; `None` after shutdown once the inbox is empty. Does not wait if there is background
    /// work.
    fn next(&self, has_background_work: bool, answered: usize) -> Option<Next> {
        let mut waiting = self.waiting.lock();
        // A caller that was just answered usually sends its next request at once. Without the wait, callers
        // would split into two groups, each waiting for the other's fsync.
        let expected = waiting.requests.len() + answered;
        while waiting.requests.is_empty()
            && waiting.exclusive.is_empty()
            && !waiting.stop
            && !has_background_work
        {
            self.filled.wait(&mut waiting);
        }
        if let Some(act) = waiting.exclusive.pop() {
            return Some(Next::Exclusive(act));
        }
        if waiting.stop && waiting.requests.is_empty() {
            return None;
        }
        if answered > 1 && waiting.requests.len() < expected && !waiting.stop {
            waiting.enough = expected;
            self.filled.wait_for(&mut waiting, LINGER);
            waiting.enough = 1;
        }
        Some(Next::Batch(std::mem::take(&mut waiting.requests)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Self::Thread { inbox, thread } = self {
            inbox.waiting.lock().stop = true;
            inbox.filled.notify_one();
            // Requests submitted before are finished first; a thread that panicked has none.
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}
