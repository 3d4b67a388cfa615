//! Metrics of the merge queues. They are counted in the queues' documents, so they survive restarts and are
//! the same on every node.

use std::fmt::Write as _;

use weaver_merge::domain::{BOUNDS_S, DurationHistogram, MergeQueue, Tally};
use weaver_merge::engine::EngineError;

use super::super::{ApiResult, AppState};
use super::{escaped, head};

type Counter = (&'static str, &'static str, fn(&Tally) -> u64);
type Kind = (&'static str, &'static str, fn(&Tally) -> &DurationHistogram);

const COUNTERS: [Counter; 5] = [
    ("weaver_merge_landed_total", "Changes that landed", |tally| tally.landed),
    (
        "weaver_merge_check_runs_total",
        "Check runs, including re-runs and control runs on the base",
        |tally| tally.runs,
    ),
    ("weaver_merge_checks_concluded_total", "Checks that reached a conclusion about a change", |tally| {
        tally.concluded
    }),
    ("weaver_merge_checks_flaky_total", "Flaky checks: failed, then passed on a re-run", |tally| tally.flaky),
    ("weaver_merge_checks_reused_total", "Checks skipped because the same tree had passed", |tally| {
        tally.reused
    }),
];
const KINDS: [Kind; 2] = [
    ("weaver_merge_turnaround_seconds", "Time from enqueue to landing", |tally| &tally.turnaround),
    ("weaver_merge_wait_seconds", "Time from enqueue to processing", |tally| &tally.wait),
];

/// Where queues cannot be read, that is logged and the other metrics are still served.
pub(super) async fn merge_queues(state: &AppState, out: &mut String) -> ApiResult<()> {
    let queues = match state.merge.queues().await {
        Ok(queues) => queues,
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "merge queues unreadable; their metrics are omitted");
            return Ok(());
        }
    };
    if !queues.is_empty() {
        write(&queues, out);
    }
    Ok(())
}

// Writing to a String cannot fail; so for all lines of this file.
fn write(queues: &[MergeQueue], out: &mut String) {
    let labels: Vec<String> =
        queues.iter().map(|queue| format!("queue=\"{}\"", escaped(&queue.id.0))).collect();
    let all = || queues.iter().zip(&labels);
    head(out, "weaver_merge_waiting", "gauge", "Changes in the queue");
    for (queue, label) in all() {
        let _ = writeln!(out, "weaver_merge_waiting{{{label}}} {}", queue.entries.len());
    }
    head(out, "weaver_merge_paused", "gauge", "1 if the merge queue is paused");
    for (queue, label) in all() {
        let _ = writeln!(out, "weaver_merge_paused{{{label}}} {}", u8::from(queue.paused.is_some()));
    }
    for (name, help, value) in COUNTERS {
        head(out, name, "counter", help);
        for (queue, label) in all() {
            let _ = writeln!(out, "{name}{{{label}}} {}", value(&queue.tally));
        }
    }
    head(out, "weaver_merge_removed_total", "counter", "Changes removed without landing, by reason");
    for (queue, label) in all() {
        for (reason, count) in &queue.tally.removed {
            let _ =
                writeln!(out, "weaver_merge_removed_total{{{label},reason=\"{}\"}} {count}", escaped(reason));
        }
    }
    for (name, help, times) in KINDS {
        head(out, name, "histogram", help);
        for (queue, label) in all() {
            histogram(out, name, label, times(&queue.tally));
        }
    }
    quantiles(queues, &labels, out);
}

fn histogram(out: &mut String, name: &str, label: &str, times: &DurationHistogram) {
    let mut below = 0;
    for (bound, count) in BOUNDS_S.iter().zip(times.buckets) {
        below += count;
        let _ = writeln!(out, "{name}_bucket{{{label},le=\"{bound}\"}} {below}");
    }
    let _ = writeln!(out, "{name}_bucket{{{label},le=\"+Inf\"}} {}", times.count);
    let _ = writeln!(out, "{name}_sum{{{label}}} {}", times.sum_ms as f64 / 1000.0);
    let _ = writeln!(out, "{name}_count{{{label}}} {}", times.count);
}

/// Exact quantiles of recent landings, so that a dashboard needs no histogram query.
fn quantiles(queues: &[MergeQueue], labels: &[String], out: &mut String) {
    let name = "weaver_merge_turnaround_recent_seconds";
    head(out, name, "gauge", "Time from enqueue to landing, quantiles of the last 100 landings");
    for (queue, label) in queues.iter().zip(labels) {
        for (quantile, percent) in [("0.5", 50), ("0.95", 95)] {
            if let Some(ms) = queue.tally.turnaround.percentile_ms(percent) {
                let _ = writeln!(out, "{name}{{{label},quantile=\"{quantile}\"}} {}", ms as f64 / 1000.0);
            }
        }
    }
}
