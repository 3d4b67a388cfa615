//! The writer: one thread that gathers whatever waits and gives it to the engine. In simulation there is
//! none: each call is a batch of its own, made by its caller, so that a seed replays exactly.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::engine::{Engine, Job};

/// Who runs the engine.
pub(crate) enum Writer {
    /// A thread of its own.
    Thread { inbox: Arc<Inbox>, thread: Option<JoinHandle<()>> },
    /// Whoever calls.
    Caller(Box<Mutex<Engine>>),
}

#[derive(Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

/// How long the writer waits for callers it has just answered: a fraction of what a sync takes.
const LINGER: Duration = Duration::from_micros(100);

/// Something to do between batches.
pub(crate) type Exclusive = Box<dyn FnOnce(&mut Engine) + Send>;

/// What the writer does next.
enum Next {
    Batch(Vec<Job>),
    Exclusive(Exclusive),
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<Job>,
    exclusive: Vec<Exclusive>,
    /// The writer need not be told before so many wait.
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
            while let Some(next) = theirs.next(engine.has_chores(), answered) {
                match next {
                    Next::Batch(jobs) => {
                        answered = jobs.len();
                        engine.process(jobs);
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

    pub(crate) fn submit(&self, job: Job) {
        match self {
            Self::Thread { inbox, .. } => inbox.put(job),
            Self::Caller(engine) => engine.lock().process(vec![job]),
        }
    }
}

impl Inbox {
    fn put(&self, job: Job) {
        let mut waiting = self.waiting.lock();
        waiting.jobs.push(job);
        // More than one may come before the writer looks; it needs to be told once.
        let count = waiting.jobs.len();
        if count == waiting.enough.max(1) {
            drop(waiting);
            self.filled.notify_one();
        }
    }

    /// What waits; `None` when it is time to stop and nothing is left. Does not wait if there are chores.
    fn next(&self, has_chores: bool, answered: usize) -> Option<Next> {
        let mut waiting = self.waiting.lock();
        // Whoever was just answered mostly asks again at once. Taking only those who asked meanwhile would
        // split the callers into two camps that wait for each other's syncs, for good.
        let expected = waiting.jobs.len() + answered;
        while waiting.jobs.is_empty() && waiting.exclusive.is_empty() && !waiting.stop && !has_chores {
            self.filled.wait(&mut waiting);
        }
        if let Some(act) = waiting.exclusive.pop() {
            return Some(Next::Exclusive(act));
        }
        if waiting.stop && waiting.jobs.is_empty() {
            return None;
        }
        if answered > 1 && waiting.jobs.len() < expected && !waiting.stop {
            waiting.enough = expected;
            self.filled.wait_for(&mut waiting, LINGER);
            waiting.enough = 1;
        }
        Some(Next::Batch(std::mem::take(&mut waiting.jobs)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Self::Thread { inbox, thread } = self {
            inbox.waiting.lock().stop = true;
            inbox.filled.notify_one();
            // What was asked for before is done first; a thread that panicked has nothing more to do.
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}
