//! New tasks into rows.

use serde_json::{Map, Value, json};
use sqlx::{PgConnection, Row};
use weaver_core::error::{Error, Result};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::task::NewTask;
use weaver_core::task::{ContentType, Start, TaskSpec, ValidTask, validate_batch};

use crate::PostgresStore;
use crate::error::{Outcome, Trouble};
use crate::hints::Plain;
use crate::row::RETRY_UNSAID;
use crate::types::{At, micros, storable};
use weaver_core::queue::Enqueued;

/// Tasks with keys take a lock each until they are stored; more of them than this go in several transactions.
const KEYED_MAX: usize = 500;

/// Wakes workers for tasks that were enqueued in a transaction of the caller's. Send it after the commit;
/// workers that were not told find the tasks when they next poll.
#[must_use = "send it after the commit, or workers find the tasks only when they next poll"]
#[derive(Debug)]
pub struct WakeUp(std::sync::Arc<crate::hints::Hints>);

impl WakeUp {
    /// Tells workers, here and on other nodes, to look.
    pub fn send(self) {
        self.0.moved();
        self.0.work();
    }
}

impl PostgresStore {
    /// Enqueues within a transaction of the caller's: the tasks are there if it commits, and not otherwise.
    pub async fn enqueue_in(
        &self,
        connection: &mut PgConnection,
        tasks: Vec<NewTask>,
    ) -> Result<(Vec<Enqueued>, WakeUp)> {
        let tasks = validate_batch(tasks, &self.options.limits)?;
        let (answers, _) = self.insert(connection, &tasks, None).await?;
        Ok((answers, WakeUp(std::sync::Arc::clone(&self.hints))))
    }

    pub(super) async fn enqueue_valid(&self, tasks: Vec<ValidTask>) -> Outcome<Vec<Result<Enqueued>>> {
        let mut answers: Vec<Result<Enqueued>> = Vec::with_capacity(tasks.len());
        for part in parts(&tasks) {
            // Told with the commit, if that is soon enough for others; else by the teller, after it.
            let teller = self.hints.teller(self.clock.monotonic());
            let stored = self.again(|| async {
                let mut session = self.connections.session().await?;
                let stored = self.insert(&mut session, part, teller).await?;
                session.end().await?;
                Ok(stored)
            });
            match stored.await {
                Ok((stored, plain)) => {
                    answers.extend(stored.into_iter().map(Ok));
                    self.hints.moved();
                    self.hints.work_of(plain, teller.is_some());
                }
                // Nothing of this batch is stored: one answer for all. Later parts fail each with the same.
                Err(trouble) if answers.is_empty() => return Err(trouble),
                Err(trouble) => {
                    let error = Error::from(trouble);
                    answers.extend(part.iter().map(|_| Err(error.clone())));
                }
            }
        }
        Ok(answers)
    }

    /// Stores tasks; says what they are, if they are what anybody can lease.
    async fn insert(
        &self,
        connection: &mut PgConnection,
        tasks: &[ValidTask],
        teller: Option<&str>,
    ) -> Outcome<(Vec<Enqueued>, Option<Plain>)> {
        if tasks.is_empty() {
            return Ok((Vec::new(), None));
        }
        let (ids, plain) = match tasks.iter().all(|task| is_like(task, &tasks[0])) {
            true => self.insert_alike(connection, tasks, teller).await?,
            false => (self.insert_many(connection, tasks, teller).await?, None),
        };
        if ids.len() != tasks.len() {
            return Err(Trouble::unreadable("an answer of another length"));
        }
        let answer = |(id, task): (i64, &ValidTask)| Enqueued {
            key: TaskKey::new(task.namespace.clone(), TaskId(id.unsigned_abs())),
            existing: id < 0,
        };
        Ok((ids.into_iter().zip(tasks).map(answer).collect(), plain))
    }

    async fn insert_alike(
        &self,
        connection: &mut PgConnection,
        tasks: &[ValidTask],
        teller: Option<&str>,
    ) -> Outcome<(Vec<i64>, Option<Plain>)> {
        let first = &tasks[0];
        let payloads: Vec<&[u8]> = tasks.iter().map(|task| task.spec.envelope.payload.as_ref()).collect();
        let row = self
            .sql
            .enqueue_alike
            .query()
            .bind(first.namespace.as_str())
            .bind(first.spec.queue.as_str())
            .bind(first.spec.envelope.task_type.as_str())
            .bind(i16::from(first.spec.priority.get()))
            .bind(budget(first.spec.max_attempts))
            .bind(budget(first.spec.max_losses))
            .bind(retry(&first.spec).map(|policy| policy.to_string()))
            .bind(payloads)
            .bind(teller)
            .fetch_one(connection)
            .await?;
        let plain = || Plain {
            namespace: first.namespace.to_string(),
            queue: first.spec.queue.to_string(),
            task_type: first.spec.envelope.task_type.to_string(),
        };
        Ok((row.try_get(0)?, row.try_get::<bool, _>(1)?.then(plain)))
    }

    async fn insert_many(
        &self,
        connection: &mut PgConnection,
        tasks: &[ValidTask],
        teller: Option<&str>,
    ) -> Outcome<Vec<i64>> {
        let namespaces: Vec<&str> = tasks.iter().map(|task| task.namespace.as_str()).collect();
        let queues: Vec<&str> = tasks.iter().map(|task| task.spec.queue.as_str()).collect();
        let types: Vec<&str> = tasks.iter().map(|task| task.spec.envelope.task_type.as_str()).collect();
        let priorities: Vec<i16> = tasks.iter().map(|task| task.spec.priority.get().into()).collect();
        let run_at: Vec<Option<At>> = tasks
            .iter()
            .map(|task| match task.start {
                Start::At(instant) => Some(At(instant)),
                Start::Now | Start::After(_) => None,
            })
            .collect();
        let delays: Vec<Option<i64>> = tasks
            .iter()
            .map(|task| match task.start {
                Start::After(delay) => Some(micros(delay)),
                Start::Now | Start::At(_) => None,
            })
            .collect();
        let payloads: Vec<&[u8]> = tasks.iter().map(|task| task.spec.envelope.payload.as_ref()).collect();
        let extras: Vec<String> = tasks.iter().map(|task| extra(&task.spec)).collect();
        Ok(self
            .sql
            .enqueue_many
            .scalar()
            .bind(namespaces)
            .bind(queues)
            .bind(types)
            .bind(priorities)
            .bind(run_at)
            .bind(delays)
            .bind(payloads)
            .bind(extras)
            .bind(micros(self.options.unique_for.max(self.options.retention)))
            .bind(teller)
            .fetch_one(connection)
            .await?)
    }
}

/// The batch, or pieces of it if too many have keys.
fn parts(tasks: &[ValidTask]) -> impl Iterator<Item = &[ValidTask]> {
    let keyed =
        tasks.iter().filter(|task| task.spec.serial_key.is_some() || task.spec.has_unique_keys()).count();
    let size = if keyed <= KEYED_MAX { tasks.len() } else { KEYED_MAX };
    tasks.chunks(size.max(1))
}

/// Whether two tasks differ in nothing but their payload, and have nothing that few tasks have.
fn is_like(task: &ValidTask, other: &ValidTask) -> bool {
    let (spec, like) = (&task.spec, &other.spec);
    task.start == Start::Now
        && task.namespace == other.namespace
        && spec.queue == like.queue
        && spec.envelope.task_type == like.envelope.task_type
        && spec.priority == like.priority
        && spec.max_attempts == like.max_attempts
        && spec.max_losses == like.max_losses
        && spec.retry == like.retry
        && is_plain(spec)
}

fn is_plain(spec: &TaskSpec) -> bool {
    spec.envelope.content_type == ContentType::JSON
        && spec.timeout.is_none()
        && spec.expires_at.is_none()
        && spec.serial_key.is_none()
        && spec.idempotency_key.is_none()
        && spec.origin.is_none()
}

/// A number of attempts as its column has it; core's limit is far below what that holds.
fn budget(count: u32) -> i16 {
    i16::try_from(count).unwrap_or(i16::MAX)
}

/// The policy, if a row has to say it.
fn retry(spec: &TaskSpec) -> Option<Value> {
    (spec.retry != RETRY_UNSAID).then(|| json!(spec.retry))
}

/// What few tasks have, and how often it is tried, by the names of the columns.
fn extra(spec: &TaskSpec) -> String {
    let mut extra = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            extra.insert(name.to_owned(), value);
        }
    };
    let content_type = &spec.envelope.content_type;
    put("content_type", (*content_type != ContentType::JSON).then(|| json!(content_type.as_str())));
    put("max_attempts", Some(json!(spec.max_attempts)));
    put("max_losses", Some(json!(spec.max_losses)));
    put("retry", retry(spec));
    put("timeout_us", spec.timeout.map(|span| json!(micros(span))));
    put("expires_at", spec.expires_at.map(|at| json!(at)));
    put("serial_key", spec.serial_key.as_ref().map(|name| json!(name.as_str())));
    put("idempotency_key", spec.idempotency_key.as_ref().map(|name| json!(name.as_str())));
    let origin = spec.origin();
    put("task_group_id", origin.task_group_id.as_ref().map(|name| json!(name.as_str())));
    put("session_id", origin.session_id.as_ref().map(|name| json!(name.as_str())));
    put("labels", (!origin.labels.is_empty()).then(|| json!(origin.labels)));
    put("job_definition_id", origin.job_definition_id.as_ref().map(|name| json!(name.as_str())));
    put("scheduled_for", origin.scheduled_for.map(|at| json!(at)));
    put("retry_of", origin.retry_of.map(|id| json!(id.0)));
    put("trace", origin.trace.as_ref().map(|trace| json!(trace)));
    let text = Value::Object(extra).to_string();
    // JSON in PostgreSQL cannot hold a zero character either.
    storable(&text).replace("\\u0000", "\u{fffd}")
}
