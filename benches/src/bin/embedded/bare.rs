//! The upper bound: a bare redb group-commit loop. It collects all waiting callers, writes rows of the same
//! sizes under the same keys, commits with two fsyncs and answers all. No state machine, no index, no checks.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use redb::{Builder, TableDefinition};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use weaver_benches::scratch::Scratch;

use crate::disk::{Backend, Counted};
use crate::lifecycles::Round;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("bare");

type Rows = Vec<(Vec<u8>, Option<Vec<u8>>)>;
type Job = (Rows, oneshot::Sender<()>);

#[derive(Default)]
struct Inbox {
    waiting: Mutex<(Vec<Job>, bool)>,
    filled: Condvar,
}

pub struct Bare {
    inbox: Arc<Inbox>,
    pub counted: Arc<Counted>,
    thread: Option<std::thread::JoinHandle<()>>,
    _scratch: Scratch,
}

impl Bare {
    pub fn new() -> Self {
        let scratch = Scratch::new("bare");
        let (backend, counted) = Backend::new(&scratch.path().join("data"));
        let database =
            Builder::new().set_cache_size(256 << 20).create_with_backend(backend).expect("a database");
        let inbox = Arc::new(Inbox::default());
        let theirs = Arc::clone(&inbox);
        let thread = std::thread::spawn(move || {
            loop {
                let jobs = {
                    let mut waiting = theirs.waiting.lock();
                    while waiting.0.is_empty() && !waiting.1 {
                        theirs.filled.wait(&mut waiting);
                    }
                    std::mem::take(&mut waiting.0)
                };
                if jobs.is_empty() {
                    return;
                }
                let mut transaction = database.begin_write().expect("a transaction");
                transaction.set_two_phase_commit(true);
                let mut answers = Vec::with_capacity(jobs.len());
                {
                    let mut table = transaction.open_table(TABLE).expect("the table");
                    for (rows, answer) in jobs {
                        for (key, value) in rows {
                            match value {
                                Some(value) => drop(table.insert(&key[..], &value[..]).expect("written")),
                                None => drop(table.remove(&key[..]).expect("removed")),
                            }
                        }
                        answers.push(answer);
                    }
                    // Counts of the queue, and the counters: once per batch, as the store writes them.
                    table.insert(&b"\x18\0\0\0\0default"[..], &[7; 30][..]).expect("written");
                    table.insert(&b"\x01counters"[..], &[7; 24][..]).expect("written");
                }
                transaction.commit().expect("synced");
                answers.into_iter().for_each(|answer| answer.send(()).unwrap_or_default());
            }
        });
        Self { inbox, counted, thread: Some(thread), _scratch: scratch }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.inbox.waiting.lock().1 = true;
        self.inbox.filled.notify_one();
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

async fn write(inbox: &Inbox, rows: Rows) {
    let (sender, receiver) = oneshot::channel();
    {
        let mut waiting = inbox.waiting.lock();
        waiting.0.push((rows, sender));
        if waiting.0.len() == 1 {
            inbox.filled.notify_one();
        }
    }
    receiver.await.expect("it answers");
}

fn key(tag: u8, id: u64) -> Vec<u8> {
    let mut key = vec![tag, 0, 0, 0, 0];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

fn lookup(kind: u8, text: &[u8], id: u64) -> Vec<u8> {
    let mut key = vec![0x13, 0, 0, 0, 0, kind, 0, text.len() as u8];
    key.extend_from_slice(text);
    key.extend_from_slice(&id.to_be_bytes());
    key
}

fn ended(id: u64) -> Vec<u8> {
    let mut key = vec![0x14];
    key.extend_from_slice(&(1_790_000_000_000_000 + id).to_be_bytes());
    key.extend_from_slice(&[0; 4]);
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// The rows of the store's own layout, by size: the three calls of a lifecycle.
fn calls(id: u64) -> [Rows; 3] {
    let value = |bytes: usize| Some(vec![b'x'; bytes]);
    [
        vec![
            (key(0x10, id), value(136)),
            (lookup(2, b"bench", id), value(4)),
            (lookup(3, b"default", id), value(4)),
            (key(0x11, id), value(9)),
        ],
        vec![(key(0x11, id), value(58))],
        vec![
            (key(0x11, id), None),
            (key(0x12, id), value(52)),
            (lookup(1, b"s", id), value(4)),
            (ended(id), value(4)),
        ],
    ]
}

pub fn lifecycles(runtime: &Runtime, bare: &Bare, clients: usize, each: usize) -> Round {
    let next = Arc::new(std::sync::atomic::AtomicU64::new(1));
    let begun = Instant::now();
    let running: Vec<_> = (0..clients)
        .map(|_| {
            let (inbox, next) = (Arc::clone(&bare.inbox), Arc::clone(&next));
            runtime.spawn(async move {
                let mut latencies = Vec::with_capacity(each * 3);
                for _ in 0..each {
                    let id = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    for rows in calls(id) {
                        let start = Instant::now();
                        write(&inbox, rows).await;
                        latencies.push(start.elapsed());
                    }
                }
                latencies
            })
        })
        .collect();
    Round::gather(runtime, running, clients * each, begun)
}
