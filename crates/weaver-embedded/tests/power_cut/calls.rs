//! Random calls as data: they are made on the store whose power is cut and on a twin whose power is not.

use bytes::Bytes;
use weaver_core::clock::Clock;
use weaver_core::error::Result;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::name::{Namespace, QueueName};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{
    Beat, DocumentKey, Expect, PurgeRule, QueueSettings, RunnerKey, Seq, Store, StreamKey, TrimBefore,
};
use weaver_core::queue::EnqueueAudit;
use weaver_core::task::{ContentType, NewTask, TaskRecord};
use weaver_testkit::harness::{queue, seconds, worker};

use crate::support::contents::{KIND, STREAMS};
use crate::support::rng::Rng;

/// A call that writes.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Enqueue(Vec<NewTask>),
    Audited(Vec<NewTask>),
    Lease(LeaseRequest),
    Commit(Vec<Transition>),
    Renew(Vec<Lease>),
    Confirm(Vec<Lease>),
    Put(DocumentKey, Bytes, Expect),
    Delete(DocumentKey),
    Append(StreamKey, Vec<Bytes>),
    Trim(StreamKey, Seq),
    Settings(QueueName, QueueSettings),
    Purge,
    Beat(Box<Beat>),
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Leased(Vec<Leased>),
    /// Any other result, as text: it only has to be the same on both stores.
    Other(String),
}

impl Call {
    pub(crate) async fn make(&self, store: &dyn Store) -> Result<Answer> {
        let namespace = Namespace::default();
        Ok(match self.clone() {
            Self::Enqueue(tasks) => other(store.enqueue_batch(tasks).await?),
            Self::Audited(tasks) => {
                let audit = EnqueueAudit { before: "ada ".to_owned(), after: String::new() };
                other(store.enqueue_audited(tasks, audit).await?)
            }
            Self::Lease(request) => Answer::Leased(store.lease(request).await?),
            Self::Commit(transitions) => other(store.commit(transitions, None).await?),
            Self::Renew(leases) => other(store.renew(leases.into_iter().map(Renewal::of).collect()).await?),
            Self::Confirm(leases) => other(store.confirm_stopped(leases).await?),
            Self::Put(key, body, expect) => other(store.put_document(&key, body, expect, None).await?),
            Self::Delete(key) => other(store.delete_document(&key, Expect::Anything).await?),
            Self::Append(stream, bodies) => other(store.append_entries(&stream, &bodies).await?),
            Self::Trim(stream, seq) => other(store.trim_entries(&stream, TrimBefore::Seq(seq)).await?),
            Self::Settings(queue, settings) => {
                other(store.put_queue(&namespace, &queue, settings, Expect::Anything).await?)
            }
            Self::Purge => {
                let rule = PurgeRule {
                    namespace: Some(namespace),
                    queue: None,
                    state: None,
                    finished_for: seconds(60),
                };
                other(store.purge_tasks(rule, 2).await?)
            }
            Self::Beat(beat) => other(store.beat(vec![*beat]).await?),
        })
    }
}

fn other(answer: impl std::fmt::Debug) -> Answer {
    Answer::Other(format!("{answer:?}"))
}

/// Chooses calls that fit the store's contents.
pub(crate) struct Chooser<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) clock: &'a dyn Clock,
    /// Leases that were granted; some are over.
    pub(crate) leases: &'a [Leased],
    /// Tasks as they were a while ago.
    pub(crate) records: &'a [TaskRecord],
}

impl Chooser<'_> {
    pub(crate) fn choose(&mut self) -> Call {
        match self.rng.below(100) {
            0..=19 => Call::Enqueue(self.tasks()),
            20..=29 => Call::Audited(self.tasks()),
            30..=49 => Call::Lease(self.request()),
            50..=67 => self.finish(),
            68..=73 => Call::Renew(self.some_leases()),
            74..=79 => self.cancel(),
            80..=82 => Call::Confirm(self.some_leases()),
            83..=87 => {
                let expect = [Expect::Anything, Expect::Absent][self.rng.below(2) as usize];
                Call::Put(self.document(), self.bytes(2000), expect)
            }
            88 => Call::Delete(self.document()),
            89..=93 => {
                Call::Append(self.stream(), (0..=self.rng.below(3)).map(|_| self.bytes(3000)).collect())
            }
            94 => Call::Trim(self.stream(), Seq(self.rng.below(20))),
            95 => {
                let settings = QueueSettings {
                    paused: self.rng.percent(20),
                    max_running: None,
                    ..QueueSettings::default()
                };
                Call::Settings(queue("b"), settings)
            }
            96..=97 => Call::Purge,
            _ => self.beat(),
        }
    }

    fn tasks(&mut self) -> Vec<NewTask> {
        (0..=self.rng.below(3)).map(|_| self.task()).collect()
    }

    fn task(&mut self) -> NewTask {
        let mut task = NewTask::new("t")
            .payload(self.bytes(800), ContentType::JSON)
            .queue(if self.rng.percent(80) { "a" } else { "b" })
            .priority(self.rng.below(10) as u8)
            .max_attempts(1 + self.rng.below(3) as u32);
        if self.rng.percent(20) {
            task = task.delay(seconds(1 + self.rng.below(60)));
        }
        if self.rng.percent(30) {
            task = task.idempotency_key(format!("key-{}", self.rng.below(30)));
        }
        if self.rng.percent(20) {
            task = task.serial_key(format!("serial-{}", self.rng.below(3)));
        }
        if self.rng.percent(30) {
            task = task.task_group_id(format!("group-{}", self.rng.below(3))).label("colour", "red");
        }
        task
    }

    fn request(&mut self) -> LeaseRequest {
        let max = 1 + self.rng.below(4) as u32;
        let token = LeaseToken(u128::from(self.rng.next()));
        LeaseRequest {
            queues: vec![queue("a"), queue("b")],
            max,
            slots: max,
            ..LeaseRequest::new(Namespace::default(), queue("a"), worker("w"), token)
        }
    }

    fn finish(&mut self) -> Call {
        let mut transitions = Vec::new();
        for _ in 0..=self.rng.below(3) {
            let Some(leased) = self.rng.pick(self.leases) else { break };
            let outcome = match self.rng.below(4) {
                0 => Outcome::failed("it did not work"),
                1 => Outcome::Succeeded { result: Some(Bytes::from(vec![b'r'; 500])) },
                _ => Outcome::DONE,
            };
            let command = Command::Finish { lease: leased.lease.clone(), outcome };
            transitions.extend(decide(&leased.record, command, self.clock.now()));
        }
        Call::Commit(transitions)
    }

    fn cancel(&mut self) -> Call {
        let Some(record) = self.rng.pick(self.records) else { return Call::Purge };
        let decided = decide(record, Command::Cancel, self.clock.now());
        Call::Commit(decided.into_iter().collect())
    }

    fn some_leases(&mut self) -> Vec<Lease> {
        let first = self.rng.pick(self.leases).map(|leased| leased.lease.clone());
        let second = self.rng.pick(self.leases).map(|leased| leased.lease.clone());
        first.into_iter().chain(second).collect()
    }

    fn beat(&mut self) -> Call {
        Call::Beat(Box::new(Beat {
            key: RunnerKey { namespace: Namespace::default(), runner_id: worker("runner") },
            project_root: None,
            started_at: self.clock.now(),
            queues: vec![queue("a")],
            types: None,
            capacity: 4,
            running: self.rng.below(4) as u32,
            draining: false,

            every: None,
        }))
    }

    fn document(&mut self) -> DocumentKey {
        DocumentKey::new(Namespace::default(), KIND, format!("doc-{}", self.rng.below(5)))
    }

    fn stream(&mut self) -> StreamKey {
        let name = STREAMS[self.rng.below(STREAMS.len() as u64) as usize];
        StreamKey::new(Namespace::default(), name)
    }

    fn bytes(&mut self, max: u64) -> Bytes {
        let fill = self.rng.below(256) as u8;
        Bytes::from(vec![fill; self.rng.below(max) as usize])
    }
}
