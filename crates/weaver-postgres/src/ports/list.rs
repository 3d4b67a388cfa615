//! Listing tasks, in the order of ids: the ids of the selector first, then what the filter needs of each.

use sqlx::Row;
use weaver_core::error::{Invalid, Problem};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::ports::{Cursor, Order, Page, Selector, TaskFilter, TaskQuery};
use weaver_core::task::{TaskRecord, TaskState};

use crate::PostgresStore;
use crate::error::Result;
use crate::sql::{Statement, StatementOptions};
use crate::types::At;

/// Candidate ids in order, each with whether the filter keeps it. `cut_at`: the last id scanned, if there may
/// be more.
struct CandidateBatch {
    ids: Vec<(i64, bool)>,
    cut_at: Option<i64>,
}

impl PostgresStore {
    pub(super) async fn list(&self, query: &TaskQuery) -> Result<Page<TaskRecord>> {
        let mut at = match &query.cursor {
            Some(Cursor(text)) => {
                let id = text.parse::<TaskId>().ok().and_then(|id| i64::try_from(id.0).ok());
                Some(id.ok_or_else(|| Invalid::new("cursor", Problem::UnknownCursor))?)
            }
            None => None,
        };
        let (limit, mut budget) = (query.limit as usize, query.scan_max);
        let mut hits: Vec<i64> = Vec::new();
        // Grows, so that a page without a filter takes one query and a rare match few.
        let mut size = query.limit.saturating_add(1);
        loop {
            let batch = self.candidate_batch(query, at, size.min(budget)).await?;
            for (index, (id, keeps)) in batch.ids.iter().enumerate() {
                if *keeps {
                    hits.push(*id);
                }
                if hits.len() == limit {
                    let more = index + 1 < batch.ids.len() || batch.cut_at.is_some();
                    return self.page(query, &hits, more.then_some(*id), true).await;
                }
            }
            budget = budget.saturating_sub(batch.ids.len().max(1) as u32);
            let Some(last) = batch.cut_at else { return self.page(query, &hits, None, true).await };
            if budget == 0 {
                return self.page(query, &hits, Some(last), false).await;
            }
            at = Some(last);
            size = size.saturating_mul(4).min(4000);
        }
    }

    async fn page(
        &self,
        query: &TaskQuery,
        hits: &[i64],
        next: Option<i64>,
        complete: bool,
    ) -> Result<Page<TaskRecord>> {
        let key = |id: &i64| TaskKey::new(query.namespace.clone(), TaskId(id.unsigned_abs()));
        let keys: Vec<_> = hits.iter().map(key).collect();
        // Since the scan a task may have changed, and no longer match, or have been purged.
        let records = self.read(&keys).await?.into_iter().flatten();
        let items =
            records.filter(|record| query.selector.selects(record) && query.filter.keeps(record)).collect();
        Ok(Page { items, next: next.map(|id| Cursor(id.to_string())), complete })
    }

    /// The next candidates in the order of ids, up to `size`.
    async fn candidate_batch(&self, query: &TaskQuery, at: Option<i64>, size: u32) -> Result<CandidateBatch> {
        let newest_first = query.order == Order::NewestFirst;
        let start = at.unwrap_or(if newest_first { i64::MAX } else { -1 });
        let ids = self.candidates(query, start, size).await?;
        let cut_at = ids.last().filter(|_| ids.len() == size as usize).map(|(id, _)| *id);
        Ok(CandidateBatch { ids, cut_at })
    }

    async fn candidates(&self, query: &TaskQuery, start: i64, size: u32) -> Result<Vec<(i64, bool)>> {
        let (compare, order) = match query.order {
            Order::NewestFirst => ("<", "DESC"),
            Order::OldestFirst => (">", "ASC"),
        };
        let (source, name, value) = source(&query.selector, compare, order);
        // The label table stores hashes: the label itself is compared as well.
        let outside = match &query.selector {
            Selector::Label(..) => "r.labels @> jsonb_build_object($10::text, $11::text)",
            Selector::State(_) => "weaver.task_state(r.state, r.scheduled) = $4",
            _ => "true",
        };
        let text = format!(
            "SELECT c.id, coalesce(({outside})
                AND ($5::smallint[] IS NULL OR weaver.task_state(r.state, r.scheduled) = ANY ($5))
                AND ($6::text[] IS NULL OR r.task_type = ANY ($6)) AND ($7::text IS NULL OR r.queue = $7)
                AND ($8::timestamptz IS NULL OR r.created_at >= $8)
                AND ($9::timestamptz IS NULL OR r.created_at < $9), false)
             FROM (SELECT o.id FROM ({source}) o WHERE ($4::smallint IS NULL OR true)
                AND ($10::text IS NULL OR true) AND ($11::text IS NULL OR true) ORDER BY o.id {order} LIMIT $3) c
             CROSS JOIN LATERAL (SELECT * FROM weaver.all_job_runs a WHERE a.id = c.id OFFSET 0) r
             ORDER BY c.id {order}",
        );
        let states = |filter: &TaskFilter| -> Option<Vec<i16>> {
            let numbers = || filter.states.iter().map(|state| state.index() as i16).collect();
            (!filter.states.is_empty()).then(numbers)
        };
        let types = || query.filter.types.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let number = match &query.selector {
            Selector::State(state) => Some(state.index() as i16),
            _ => None,
        };
        // A custom plan each time: a generic plan assumes that a tenth of the selected rows is read.
        let rows = Statement::new(
            StatementOptions { is_prepared: false, ..self.options.statement_options() },
            &text,
        )
        .query()
        .bind(query.namespace.as_str())
        .bind(start)
        .bind(i64::from(size))
        .bind(number)
        .bind(states(&query.filter))
        .bind((!query.filter.types.is_empty()).then(types))
        .bind(query.filter.queue.as_ref().map(|queue| queue.as_str()))
        .bind(query.filter.created_from.map(At))
        .bind(query.filter.created_before.map(At))
        .bind(name)
        .bind(value)
        .fetch_all(&self.connections)
        .await?;
        let candidate = |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
        rows.iter().map(candidate).collect()
    }
}

/// The query that returns the ids of a selector, in order and at most `$3`, with its parameters. Each reads
/// through an index in the order of ids, except live tasks by state, of which there are few.
fn source(selector: &Selector, compare: &str, order: &str) -> (String, Option<String>, Option<String>) {
    let tasks = |condition: &str| {
        format!(
            "SELECT s.id FROM weaver.tasks s WHERE s.namespace = $1 AND s.id {compare} $2 AND {condition}
             ORDER BY s.id {order} LIMIT $3"
        )
    };
    match selector {
        // A namespace has no index of its own: its queues are merged.
        Selector::All => (by_queue(compare, order), None, None),
        Selector::State(state) => (by_state(*state, compare, order), None, None),
        Selector::Type(name) => (tasks("s.task_type = $10"), Some(name.to_string()), None),
        Selector::Queue(name) => (tasks("s.queue = $10"), Some(name.to_string()), None),
        Selector::Group(name) => (tasks("s.task_group_id = $10"), Some(name.to_string()), None),
        Selector::Session(name) => (tasks("s.session_id = $10"), Some(name.to_string()), None),
        Selector::Label(name, value) => {
            let text = format!(
                "SELECT t.task_id AS id FROM weaver.task_labels t WHERE t.namespace = $1 AND t.task_id {compare} $2
                 AND t.label = weaver.label($10::text, $11::text) ORDER BY t.task_id {order} LIMIT $3"
            );
            (text, Some(name.clone()), Some(value.clone()))
        }
        Selector::Worker(name) => {
            let text = format!(
                "SELECT m.id FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
                 WHERE l.namespace = $1 AND l.worker = $10 AND l.state IN ({}, {}) AND m.id {compare} $2
                 AND m.id <> ALL (l.gone)
                 AND (NOT l.is_shared OR NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id))",
                TaskState::Running.index(),
                TaskState::Assigned.index()
            );
            (text, Some(name.to_string()), None)
        }
        Selector::SerialKey(name) => {
            let text = format!(
                "SELECT w.id FROM weaver.ready w WHERE w.namespace = $1 AND w.serial_key = $10 AND w.id {compare} $2
                 UNION ALL SELECT l.first_id FROM weaver.leases l WHERE l.namespace = $1 AND l.serial_key = $10
                 AND l.first_id {compare} $2"
            );
            (text, Some(name.to_string()), None)
        }
    }
}

/// The tasks of a namespace, merged from its queues.
fn by_queue(compare: &str, order: &str) -> String {
    format!(
        "SELECT d.id FROM (SELECT DISTINCT n.queue FROM weaver.counts($1, NULL) n) q CROSS JOIN LATERAL (
             SELECT s.id FROM weaver.tasks s WHERE s.namespace = $1 AND s.queue = q.queue AND s.id {compare} $2
             ORDER BY s.id {order} LIMIT $3) d"
    )
}

/// Waiting tasks are in `ready`, held ones in `leases`, ended ones in `ended`. Successes have no index by
/// state: most ended tasks are successes, and the namespace is read instead.
fn by_state(state: TaskState, compare: &str, order: &str) -> String {
    match state {
        TaskState::Queued | TaskState::Scheduled | TaskState::RetryScheduled => format!(
            "SELECT w.id FROM weaver.ready w WHERE w.namespace = $1 AND w.id {compare} $2 AND w.state = $4
             ORDER BY w.id {order} LIMIT $3"
        ),
        TaskState::Running | TaskState::Assigned | TaskState::Orphaned => format!(
            "SELECT m.id FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
             WHERE l.namespace = $1 AND l.state = $4 AND m.id {compare} $2 AND m.id <> ALL (l.gone)
             AND (NOT l.is_shared OR NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id))"
        ),
        TaskState::Dead | TaskState::Cancelled => format!(
            "SELECT e.id FROM weaver.ended e WHERE e.namespace = $1 AND e.state = {} AND e.state <> {}
             AND e.id {compare} $2 ORDER BY e.id {order} LIMIT $3",
            state.index(),
            TaskState::Succeeded.index()
        ),
        TaskState::Succeeded => by_queue(compare, order),
    }
}
