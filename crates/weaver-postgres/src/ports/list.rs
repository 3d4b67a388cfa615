//! Listing tasks. Both tables are read in the order of ids: live runs by scanning, finished ones through the
//! selector's index.

use sqlx::Row;
use weaver_core::error::{Invalid, Problem};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::ports::{Cursor, Order, Page, Selector, TaskFilter, TaskQuery};
use weaver_core::task::{TaskRecord, TaskState};

use crate::PostgresStore;
use crate::error::Result;
use crate::names::words_of;
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

    /// The next candidates of both tables, up to where both have been scanned.
    async fn candidate_batch(&self, query: &TaskQuery, at: Option<i64>, size: u32) -> Result<CandidateBatch> {
        let newest_first = query.order == Order::NewestFirst;
        let start = at.unwrap_or(if newest_first { i64::MAX } else { -1 });
        let mut ids = Vec::new();
        let mut cut_at: Option<i64> = None;
        for table in tables(&query.selector) {
            let part = self.candidates(query, *table, start, size).await?;
            if part.len() == size as usize
                && let Some((last, _)) = part.last()
            {
                let nearer = |cut: i64| if newest_first { cut.max(*last) } else { cut.min(*last) };
                cut_at = Some(cut_at.map_or(*last, nearer));
            }
            ids.extend(part);
        }
        ids.sort_unstable_by_key(|(id, _)| if newest_first { -*id } else { *id });
        // Beyond the nearer end, one of the tables has not been scanned yet.
        if let Some(cut) = cut_at {
            ids.retain(|(id, _)| if newest_first { *id >= cut } else { *id <= cut });
        }
        Ok(CandidateBatch { ids, cut_at })
    }

    async fn candidates(
        &self,
        query: &TaskQuery,
        table: Table,
        start: i64,
        size: u32,
    ) -> Result<Vec<(i64, bool)>> {
        let (compare, order) = match query.order {
            Order::NewestFirst => ("<", "DESC"),
            Order::OldestFirst => (">", "ASC"),
        };
        let (selected, name, value) = condition(&query.selector);
        // Live runs have an index for few selectors: for the others they are scanned, up to `scan_max`.
        let (inside, outside) = match table {
            Table::Live if !is_indexed_live(&query.selector) => ("true", selected),
            // The label table stores hashes: the label itself is compared as well.
            Table::History if matches!(query.selector, Selector::Label(..)) => ("true", selected),
            Table::Live | Table::History => (selected, "true"),
        };
        let from = match (table, &query.selector) {
            // The labels of finished runs are in the order of ids: the LIMIT is inside, so that no plan reads
            // all runs of a label.
            (Table::History, Selector::Label(..)) => format!(
                "(SELECT l.run_id FROM weaver.job_run_labels l WHERE l.namespace = $1 AND l.run_id {compare} $2
                    AND l.label = weaver.label($10::text, $11::text) ORDER BY l.run_id {order} LIMIT $3) l
                 JOIN weaver.job_run_history r ON r.namespace = $1 AND r.id = l.run_id WHERE true"
            ),
            _ => format!("{} r WHERE r.namespace = $1 AND r.id {compare} $2", table.name()),
        };
        let text = format!(
            "SELECT r.id, ({outside}) AND ($5::smallint[] IS NULL OR weaver.task_state(r.state, r.scheduled) = ANY ($5))
                AND ($6::text[] IS NULL OR r.task_type = ANY ($6)) AND ($7::text IS NULL OR r.queue = $7)
                AND ($8::timestamptz IS NULL OR r.created_at >= $8)
                AND ($9::timestamptz IS NULL OR r.created_at < $9) AND ($10::text IS NULL OR true)
                AND ($11::text IS NULL OR true)
             FROM {from} AND ({inside}) AND ($4::smallint IS NULL OR true) ORDER BY r.id {order} LIMIT $3",
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Live,
    History,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Live => "weaver.job_runs",
            Self::History => "weaver.job_run_history",
        }
    }
}

/// The tables that can hold runs of a selector.
fn tables(selector: &Selector) -> &'static [Table] {
    match selector {
        Selector::State(TaskState::Succeeded | TaskState::Dead) => &[Table::History],
        Selector::State(state) if !state.is_terminal() => &[Table::Live],
        Selector::SerialKey(_) => &[Table::Live],
        _ => &[Table::Live, Table::History],
    }
}

fn is_indexed_live(selector: &Selector) -> bool {
    matches!(
        selector,
        Selector::SerialKey(_) | Selector::Group(_) | Selector::Session(_) | Selector::Label(..)
    )
}

/// The condition of a selector, with its parameters.
fn condition(selector: &Selector) -> (&'static str, Option<String>, Option<String>) {
    match selector {
        Selector::All => ("true", None, None),
        Selector::State(state) => {
            let condition = match words_of(*state) {
                ["PENDING"] => "r.state = 'PENDING' AND weaver.task_state(r.state, r.scheduled) = $4",
                ["ASSIGNED"] => "r.state = 'ASSIGNED'",
                ["ORPHANED"] => "r.state = 'ORPHANED'",
                ["RUNNING"] => "r.state = 'RUNNING'",
                ["RETRY_SCHEDULED"] => "r.state = 'RETRY_SCHEDULED'",
                ["SUCCEEDED"] => "r.state = 'SUCCEEDED'",
                ["CANCELED"] => "r.state = 'CANCELED'",
                _ => "r.state IN ('FAILED', 'TIMED_OUT')",
            };
            (condition, None, None)
        }
        Selector::Type(name) => ("r.task_type = $10", Some(name.to_string()), None),
        Selector::Queue(name) => ("r.queue = $10", Some(name.to_string()), None),
        Selector::Group(name) => ("r.task_group_id = $10", Some(name.to_string()), None),
        Selector::Session(name) => ("r.session_id = $10", Some(name.to_string()), None),
        Selector::Label(name, value) => {
            ("r.labels @> jsonb_build_object($10::text, $11::text)", Some(name.clone()), Some(value.clone()))
        }
        Selector::SerialKey(name) => ("r.serial_key = $10", Some(name.to_string()), None),
    }
}
