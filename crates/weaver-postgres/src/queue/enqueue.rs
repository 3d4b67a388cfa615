//! Enqueue: new tasks become rows of `tasks` and `ready`.

use serde_json::{Map, Value, json};
use sqlx::{PgConnection, Row};
use weaver_core::error::{Error, Result};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::task::NewTask;
use weaver_core::task::{ContentType, Start, TaskSpec, ValidTask, validate_batch};

use crate::PostgresStore;
use crate::error::StoreFault;
use crate::hints::ReadyTasks;
use crate::row::RETRY_WHEN_NULL;
use crate::types::{At, micros, storable};
use weaver_core::queue::{EnqueueAudit, Enqueued};

/// Tasks with keys per transaction: each holds an advisory lock until the commit.
const KEYED_MAX: usize = 500;

/// Wakes workers for tasks that were enqueued in the caller's transaction. Send it after the commit;
/// otherwise workers find the tasks at their next poll.
#[must_use = "send it after the commit, or workers find the tasks only when they next poll"]
#[derive(Debug)]
pub struct WakeUp(std::sync::Arc<crate::hints::Hints>);

impl WakeUp {
    /// Wakes waiting workers, on this node and by NOTIFY on the others.
    pub fn send(self) {
        self.0.moved();
        self.0.work_ready();
    }
}

impl PostgresStore {
    /// Enqueues within the caller's transaction: the tasks exist if it commits, and not otherwise.
    pub async fn enqueue_in(
        &self,
        connection: &mut PgConnection,
        tasks: Vec<NewTask>,
    ) -> Result<(Vec<Enqueued>, WakeUp)> {
        let tasks = validate_batch(tasks, &self.options.limits)?;
        let (answers, _) = self.insert(connection, &tasks, None, None).await?;
        Ok((answers, WakeUp(std::sync::Arc::clone(&self.hints))))
    }

    pub(super) async fn enqueue_valid(
        &self,
        tasks: Vec<ValidTask>,
        audit: Option<&EnqueueAudit>,
    ) -> Result<Vec<Result<Enqueued>>, StoreFault> {
        let mut answers: Vec<Result<Enqueued>> = Vec::with_capacity(tasks.len());
        for part in parts(&tasks) {
            // NOTIFY in the transaction if none was sent recently; otherwise the notifier sends it later.
            let notify_as = self.hints.notify_as(self.clock.monotonic());
            let stored = self.retry_transient(|| async {
                let mut session = self.connections.session().await?;
                let stored = self.insert(&mut session, part, notify_as, audit).await?;
                session.end().await?;
                Ok(stored)
            });
            match stored.await {
                Ok((stored, ready)) => {
                    answers.extend(stored.into_iter().map(Ok));
                    self.hints.moved();
                    self.hints.work_ready_for(ready, notify_as.is_some());
                }
                // Nothing of the batch is stored: one error for all. If a later part fails, its tasks get it.
                Err(fault) if answers.is_empty() => return Err(fault),
                Err(fault) => {
                    let error = Error::from(fault);
                    answers.extend(part.iter().map(|_| Err(error.clone())));
                }
            }
        }
        Ok(answers)
    }

    /// Stores tasks; also names them if any worker of their queue and type can lease them. The audit entries
    /// are written by the same statement.
    async fn insert(
        &self,
        connection: &mut PgConnection,
        tasks: &[ValidTask],
        notify_as: Option<&str>,
        audit: Option<&EnqueueAudit>,
    ) -> Result<(Vec<Enqueued>, Option<ReadyTasks>), StoreFault> {
        if tasks.is_empty() {
            return Ok((Vec::new(), None));
        }
        let (ids, ready) = match tasks.iter().all(|task| differs_only_in_payload(task, &tasks[0])) {
            true => self.insert_uniform(connection, tasks, notify_as, audit).await?,
            false => (self.insert_many(connection, tasks, notify_as, audit).await?, None),
        };
        if ids.len() != tasks.len() {
            return Err(StoreFault::unreadable("an enqueue returned a wrong number of ids"));
        }
        let answer = |(id, task): (i64, &ValidTask)| Enqueued {
            key: TaskKey::new(task.namespace.clone(), TaskId(id.unsigned_abs())),
            existing: id < 0,
        };
        Ok((ids.into_iter().zip(tasks).map(answer).collect(), ready))
    }

    async fn insert_uniform(
        &self,
        connection: &mut PgConnection,
        tasks: &[ValidTask],
        notify_as: Option<&str>,
        audit: Option<&EnqueueAudit>,
    ) -> Result<(Vec<i64>, Option<ReadyTasks>), StoreFault> {
        let first = &tasks[0];
        let payloads: Vec<&[u8]> = tasks.iter().map(|task| task.spec.envelope.payload.as_ref()).collect();
        let statement = match audit {
            None => &self.sql.enqueue_uniform,
            Some(_) => &self.sql.enqueue_uniform_audited,
        };
        let enqueue = statement
            .query()
            .bind(first.namespace.as_str())
            .bind(first.spec.queue.as_str())
            .bind(first.spec.envelope.task_type.as_str())
            .bind(i16::from(first.spec.priority.get()))
            .bind(budget(first.spec.max_attempts))
            .bind(budget(first.spec.max_losses))
            .bind(retry(&first.spec).map(|policy| policy.to_string()))
            .bind(payloads)
            .bind(notify_as);
        let enqueue = match audit {
            None => enqueue,
            Some(audit) => enqueue.bind(storable(&audit.before)).bind(storable(&audit.after)),
        };
        let row = enqueue.fetch_one(connection).await?;
        let ready = || ReadyTasks {
            namespace: first.namespace.to_string(),
            queue: first.spec.queue.to_string(),
            task_type: first.spec.envelope.task_type.to_string(),
        };
        Ok((row.try_get(0)?, row.try_get::<bool, _>(1)?.then(ready)))
    }

    async fn insert_many(
        &self,
        connection: &mut PgConnection,
        tasks: &[ValidTask],
        notify_as: Option<&str>,
        audit: Option<&EnqueueAudit>,
    ) -> Result<Vec<i64>, StoreFault> {
        let namespaces: Vec<&str> = tasks.iter().map(|task| task.namespace.as_str()).collect();
        let queues: Vec<&str> = tasks.iter().map(|task| task.spec.queue.as_str()).collect();
        let types: Vec<&str> = tasks.iter().map(|task| task.spec.envelope.task_type.as_str()).collect();
        let priorities: Vec<i16> = tasks.iter().map(|task| task.spec.priority.get().into()).collect();
        let max_attempts: Vec<i16> = tasks.iter().map(|task| budget(task.spec.max_attempts)).collect();
        let max_losses: Vec<i16> = tasks.iter().map(|task| budget(task.spec.max_losses)).collect();
        let serial_keys: Vec<Option<&str>> =
            tasks.iter().map(|task| task.spec.serial_key.as_ref().map(|key| key.as_str())).collect();
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
        let extras: Vec<Option<String>> = tasks.iter().map(|task| extra(&task.spec)).collect();
        let statement = match audit {
            None => &self.sql.enqueue_many,
            Some(_) => &self.sql.enqueue_many_audited,
        };
        let enqueue = statement
            .query()
            .bind(namespaces)
            .bind(queues)
            .bind(types)
            .bind(priorities)
            .bind(max_attempts)
            .bind(max_losses)
            .bind(serial_keys)
            .bind(run_at)
            .bind(delays)
            .bind(payloads)
            .bind(extras)
            .bind(micros(self.options.unique_for.max(self.options.retention)))
            .bind(notify_as);
        let enqueue = match audit {
            None => enqueue,
            Some(audit) => enqueue.bind(storable(&audit.before)).bind(storable(&audit.after)),
        };
        Ok(enqueue.fetch_one(connection).await?.try_get(0)?)
    }
}

/// The batch, split if more than [`KEYED_MAX`] tasks have keys.
fn parts(tasks: &[ValidTask]) -> impl Iterator<Item = &[ValidTask]> {
    let keyed =
        tasks.iter().filter(|task| task.spec.serial_key.is_some() || task.spec.has_unique_keys()).count();
    let size = if keyed <= KEYED_MAX { tasks.len() } else { KEYED_MAX };
    tasks.chunks(size.max(1))
}

/// Whether two tasks differ only in their payload and set no rare field.
fn differs_only_in_payload(task: &ValidTask, other: &ValidTask) -> bool {
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

/// `max_attempts` or `max_losses` as the column's type; core's limit is far below `i16::MAX`.
fn budget(count: u32) -> i16 {
    i16::try_from(count).unwrap_or(i16::MAX)
}

/// The retry policy, unless it is the one that NULL stands for.
fn retry(spec: &TaskSpec) -> Option<Value> {
    (spec.retry != RETRY_WHEN_NULL).then(|| json!(spec.retry))
}

/// Rare fields, as JSON by column name; most tasks have none.
fn extra(spec: &TaskSpec) -> Option<String> {
    let mut extra = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            extra.insert(name.to_owned(), value);
        }
    };
    let content_type = &spec.envelope.content_type;
    put("content_type", (*content_type != ContentType::JSON).then(|| json!(content_type.as_str())));
    put("retry", retry(spec));
    put("timeout_us", spec.timeout.map(|span| json!(micros(span))));
    put("expires_at", spec.expires_at.map(|at| json!(at)));
    put("idempotency_key", spec.idempotency_key.as_ref().map(|name| json!(name.as_str())));
    let origin = spec.origin();
    put("task_group_id", origin.task_group_id.as_ref().map(|name| json!(name.as_str())));
    put("session_id", origin.session_id.as_ref().map(|name| json!(name.as_str())));
    put("labels", (!origin.labels.is_empty()).then(|| json!(origin.labels)));
    put("job_definition_id", origin.job_definition_id.as_ref().map(|name| json!(name.as_str())));
    put("scheduled_for", origin.scheduled_for.map(|at| json!(at)));
    put("retry_of", origin.retry_of.map(|id| json!(id.0)));
    put("dispatch", origin.dispatch.map(|dispatch| json!(dispatch.as_str())));
    put("trace", origin.trace.as_ref().map(|trace| json!(trace)));
    if extra.is_empty() {
        return None;
    }
    let text = Value::Object(extra).to_string();
    // jsonb cannot store NUL either.
    Some(storable(&text).replace("\\u0000", "\u{fffd}"))
}
