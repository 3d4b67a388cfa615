//! One client of the store: random calls in a loop, with every request and every answer reported.

use std::time::Duration;

use bytes::Bytes;
use weaver_core::error::Error;
use weaver_core::id::{LeaseToken, TaskId, TaskKey, Version};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::ports::{DocumentKey, Documents, Expect, Journal, StreamKey};
use weaver_core::queue::{Committed, Queue, QueueExt};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{ContentType, NewTask};

use crate::child::{QUEUE_NARROW, QUEUE_WIDE, Shared, answered, say};
use crate::dice::Dice;
use crate::wire::{Answer, Line, Member, Move, Request, Snapshot, Verdict, payload};

pub(crate) const DOCUMENTS: u64 = 4;
pub(crate) const STREAMS: u64 = 3;
/// Few enough that most are used more than once.
const UNIQUE_KEYS: u64 = 60;
const SERIAL_KEYS: u64 = 6;
const GROUPS: u64 = 3;
const RETRY_DELAY: Duration = Duration::from_millis(20);

pub(crate) struct Client<'a> {
    shared: &'a Shared,
    dice: Dice,
    /// High bits of the numbers that this client draws, unique over clients and lives.
    number: u64,
    made: u64,
    /// Leases whose work takes longer; some are finished after they expired.
    kept: Vec<Leased>,
}

/// A transition, and the line that reports it.
pub(crate) struct Planned {
    pub(crate) transition: Transition,
    pub(crate) reported_as: Move,
}

/// Commits transitions together, and reports the results.
pub(crate) async fn commit(shared: &Shared, planned: &[Planned]) -> Vec<Verdict> {
    let named = |planned: &Planned| {
        let Transition { key, expected_version, .. } = &planned.transition;
        (key.id.0, expected_version.0, planned.reported_as.clone())
    };
    let call = shared.announce(Request::Commit(planned.iter().map(named).collect()));
    let transitions = planned.iter().map(|planned| planned.transition.clone()).collect();
    let verdict = |committed: &Committed| match committed {
        Committed::Applied { version } => Verdict::Applied(version.0),
        Committed::AlreadyApplied => Verdict::Already,
        Committed::Stale => Verdict::Stale,
        Committed::Blocked(_) => Verdict::Blocked,
    };
    match shared.store.commit(transitions, None).await {
        Ok(answers) => {
            let verdicts: Vec<_> = answers.iter().map(verdict).collect();
            answered(call, Answer::Committed(verdicts.clone()));
            verdicts
        }
        Err(error) => {
            answered(call, failed(&error));
            Vec::new()
        }
    }
}

fn failed(error: &Error) -> Answer {
    match error {
        Error::Conflict { .. } => Answer::Conflict,
        other => Answer::Failed(other.to_string()),
    }
}

impl<'a> Client<'a> {
    pub(crate) fn new(number: u64, seed: u64, shared: &'a Shared) -> Self {
        let number = (shared.life << 8 | number) << 32;
        Self { shared, dice: Dice::new(seed), number, made: 0, kept: Vec::new() }
    }

    pub(crate) async fn run(mut self) {
        loop {
            // Mostly a little time passes; sometimes so much that leases expire.
            let passes = if self.dice.chance(2) { 2_000_000 } else { self.dice.below(3000) };
            self.shared.clock.advance(Duration::from_micros(passes));
            match self.dice.below(100) {
                0..18 => self.enqueue().await,
                18..62 => self.work().await,
                62..72 => self.finish_kept().await,
                72..78 => self.change(Command::Cancel, Move::Cancel).await,
                78..81 => self.change(Command::RunNow, Move::RunNow).await,
                81..87 => self.read_task().await,
                87..94 => self.write_document().await,
                _ => self.append().await,
            }
        }
    }

    fn nonce(&mut self) -> u64 {
        self.made += 1;
        self.number | self.made
    }

    async fn enqueue(&mut self) {
        let count = if self.dice.chance(50) { 1 } else { self.dice.between(2, 6) };
        let members: Vec<Member> = (0..count).map(|_| self.member()).collect();
        let tasks = members.iter().map(new_task).collect();
        let call = self.shared.announce(Request::Enqueue(members));
        let answer = match self.shared.store.enqueue_batch(tasks).await {
            Ok(answers) => answers.into_iter().collect::<Result<Vec<_>, _>>(),
            Err(error) => Err(error),
        };
        match answer {
            Ok(answers) => {
                let answers: Vec<_> =
                    answers.into_iter().map(|answer| (answer.key.id.0, answer.existing)).collect();
                self.shared.known.lock().extend(answers.iter().map(|(id, _)| id));
                answered(call, Answer::Enqueued(answers));
            }
            Err(error) => answered(call, failed(&error)),
        }
    }

    fn member(&mut self) -> Member {
        let dice = &mut self.dice;
        let mut one_of =
            |percent, name: &str, count| dice.chance(percent).then(|| format!("{name}{}", dice.below(count)));
        let (serial, unique, group) = (
            one_of(15, "serial", SERIAL_KEYS),
            one_of(15, "unique", UNIQUE_KEYS),
            one_of(40, "group", GROUPS),
        );
        let queue = if dice.chance(20) { QUEUE_NARROW } else { QUEUE_WIDE }.to_owned();
        let max_attempts = dice.between(1, 3) as u32;
        let max_losses = dice.between(0, 2) as u32;
        let delayed = dice.chance(15);
        Member { nonce: self.nonce(), queue, max_attempts, max_losses, delayed, serial, unique, group }
    }

    /// Leases some tasks, or repeats a lease call of an earlier life; finishes them now, later or never.
    async fn work(&mut self) {
        let token = self.shared.tokens.lock().pop();
        let token = token.unwrap_or_else(|| LeaseToken(u128::from(self.nonce())));
        let ttl = Duration::from_millis(self.dice.between(50, 3000));
        let max = self.dice.between(1, 4) as u32;
        let request = LeaseRequest { max, slots: max, ttl, ..lease_request(token) };
        let call = self.shared.announce(Request::Lease(token));
        let granted = match self.shared.store.lease(request).await {
            Ok(granted) => granted,
            Err(error) => return answered(call, failed(&error)),
        };
        answered(call, Answer::Leased(granted.iter().map(|leased| Snapshot::of(&leased.record)).collect()));
        let mut now = Vec::new();
        for leased in granted {
            match self.dice.below(100) {
                0..70 => now.push(leased),
                70..90 => self.kept.push(leased),
                // Never finished, as by a worker that crashed.
                _ => {}
            }
        }
        self.finish(now).await;
    }

    /// Finishes a kept lease after a while: some are renewed first, some have expired.
    async fn finish_kept(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let at = self.dice.place(self.kept.len());
        let leased = self.kept.swap_remove(at);
        if self.dice.chance(60) {
            let call = self.shared.announce(Request::Renew(leased.lease.key.id.0, leased.lease.version.0));
            match self.shared.store.renew(vec![Renewal::of(leased.lease.clone())]).await {
                Ok(answers) => {
                    answered(call, Answer::Renewed { extended: answers == [Renewed::Extended] });
                    if answers == [Renewed::Cancelled] {
                        return self.confirm_stopped(leased.lease).await;
                    }
                }
                Err(error) => answered(call, failed(&error)),
            }
        }
        // The record is the one from the start: under an expired lease this is the report of a zombie worker.
        self.finish(vec![leased]).await;
    }

    async fn finish(&mut self, leased: Vec<Leased>) {
        let planned: Vec<Planned> = leased.iter().map(|leased| self.plan(leased)).collect();
        if planned.is_empty() {
            return;
        }
        let verdicts = commit(self.shared, &planned).await;
        if self.dice.chance(10) {
            // As if the answer had been lost.
            commit(self.shared, &planned).await;
        }
        for (leased, verdict) in leased.into_iter().zip(verdicts) {
            if verdict == Verdict::Stale && self.dice.chance(70) {
                self.confirm_stopped(leased.lease).await;
            }
        }
    }

    fn plan(&mut self, leased: &Leased) -> Planned {
        let words = format!("{:x}", self.nonce());
        let failed = |retry| Outcome::Failed { error: words.as_str().into(), retry };
        let (outcome, reported_as) = match self.dice.below(100) {
            0..55 => {
                let result = Some(Bytes::from(words.clone().into_bytes()));
                (Outcome::Succeeded { result }, Move::Succeed(words))
            }
            55..75 => (failed(Retry::ByPolicy), Move::Fail(words)),
            75..80 => (failed(Retry::Never), Move::Fatal(words)),
            80..86 => (Outcome::Snoozed { delay: RETRY_DELAY }, Move::Snooze),
            86..94 => (Outcome::Released, Move::Release),
            _ => (Outcome::Cancelled { message: words.as_str().into() }, Move::Quit(words)),
        };
        let command = Command::Finish { lease: leased.lease.clone(), outcome };
        let transition = decide(&leased.record, command, leased.record.updated_at);
        Planned { transition: transition.expect("a lease can be ended on its own record"), reported_as }
    }

    async fn confirm_stopped(&self, lease: Lease) {
        let call = self.shared.announce(Request::Stopped(lease.key.id.0, lease.version.0));
        let answer = self.shared.store.confirm_stopped(vec![lease]).await;
        answered(call, answer.map_or_else(|error| failed(&error), |()| Answer::Done));
    }

    fn known(&mut self) -> Option<TaskKey> {
        let mut known = self.shared.known.lock();
        if known.is_empty() {
            return None;
        }
        let at = self.dice.place(known.len());
        Some(TaskKey::new(Namespace::default(), TaskId(known.swap_remove(at))))
    }

    async fn change(&mut self, command: Command, reported_as: Move) {
        let Some(key) = self.known() else { return };
        let record = self.shared.store.get_task(&key).await.expect("a known task can be read");
        say(&Line::Saw(Snapshot::of(&record)));
        if let Ok(transition) = decide(&record, command, record.updated_at) {
            commit(self.shared, &[Planned { transition, reported_as }]).await;
        }
    }

    async fn read_task(&mut self) {
        let Some(key) = self.known() else { return };
        let record = self.shared.store.get_task(&key).await.expect("a known task can be read");
        say(&Line::Saw(Snapshot::of(&record)));
        self.shared.known.lock().push(key.id.0);
    }

    async fn write_document(&mut self) {
        let id = format!("document{}", self.dice.below(DOCUMENTS));
        let key = document_key(&id);
        let found = self.shared.store.get_document(&key).await.expect("a document can be read");
        let seen = found.as_ref().map(|found| (found.version.0, text(&found.body)));
        say(&Line::SawDocument { id: id.clone(), found: seen });
        let version = found.map(|found| found.version);
        if let Some(version) = version.filter(|_| self.dice.chance(20)) {
            let call = self.shared.announce(Request::Delete { id, version: version.0 });
            let answer = self.shared.store.delete_document(&key, Expect::Version(version)).await;
            return answered(call, answer.map_or_else(|error| failed(&error), |()| Answer::Done));
        }
        let body = format!("{:x}", self.nonce());
        let expect = version.map_or(Expect::Absent, Expect::Version);
        let after = version.map(|version| version.0);
        let call = self.shared.announce(Request::Put { id, after, body: body.clone() });
        let answer = self.shared.store.put_document(&key, body.into(), expect, None).await;
        answered(call, answer.map_or_else(|error| failed(&error), |Version(number)| Answer::Version(number)));
    }

    async fn append(&mut self) {
        let stream = format!("stream{}", self.dice.below(STREAMS));
        let count = self.dice.between(1, 5);
        let bodies: Vec<String> = (0..count).map(|_| format!("{:x}", self.nonce())).collect();
        let bytes: Vec<Bytes> = bodies.iter().map(|body| Bytes::from(body.clone().into_bytes())).collect();
        let call = self.shared.announce(Request::Append { stream: stream.clone(), bodies });
        let answer = self.shared.store.append_entries(&stream_key(&stream), &bytes).await;
        answered(call, answer.map_or_else(|error| failed(&error), |seq| Answer::Appended(seq.0)));
    }
}

/// From both queues. All workers share one name, so that any of them may repeat a call with its token.
pub(crate) fn lease_request(token: LeaseToken) -> LeaseRequest {
    let queue = |name: &'static str| QueueName::new(name).expect("a name");
    let worker = WorkerId::new("worker").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), queue(QUEUE_WIDE), worker, token);
    LeaseRequest { queues: vec![queue(QUEUE_WIDE), queue(QUEUE_NARROW)], ..request }
}

pub(crate) fn document_key(id: &str) -> DocumentKey {
    DocumentKey::new(Namespace::default(), "torture", id)
}

pub(crate) fn stream_key(name: &str) -> StreamKey {
    StreamKey::new(Namespace::default(), name)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn new_task(member: &Member) -> NewTask {
    let mut task = NewTask::new("torture")
        .payload(payload(member.nonce), ContentType::other("application/octet-stream"))
        .queue(member.queue.clone())
        .max_attempts(member.max_attempts)
        .max_losses(member.max_losses)
        .retry(RetryPolicy::Fixed { delay: RETRY_DELAY });
    if member.delayed {
        task = task.delay(RETRY_DELAY);
    }
    if let Some(key) = &member.serial {
        task = task.serial_key(key.clone());
    }
    if let Some(key) = &member.unique {
        task = task.idempotency_key(key.clone());
    }
    if let Some(group) = &member.group {
        task = task.task_group_id(group.clone());
    }
    task
}
