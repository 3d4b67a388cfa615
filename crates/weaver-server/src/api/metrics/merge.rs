//! Figures of the merge queues. They are counted in the queues' documents, so they outlive servers and are
//! the same on every node.

use std::fmt::Write as _;

use weaver_merge::domain::{BOUNDS_S, MergeQueue, Tally, Times};
use weaver_merge::engine::EngineError;

use super::super::{Answer, AppState};
use super::{escaped, head};

type Counter = (&'static str, &'static str, fn(&Tally) -> u64);
type Kind = (&'static str, &'static str, fn(&Tally) -> &Times);

const COUNTERS: [Counter; 5] = [
    ("weaver_merge_landed_total", "Changes that landed", |tally| tally.landed),
    ("weaver_merge_check_runs_total", "Runs of checks, repetitions and control runs included", |tally| {
        tally.runs
    }),
    ("weaver_merge_checks_judged_total", "Checks that came to a judgement about a change", |tally| {
        tally.judged
    }),
    ("weaver_merge_checks_flaky_total", "Checks that failed and passed when repeated", |tally| tally.flaky),
    ("weaver_merge_checks_reused_total", "Checks not run because the same tree had passed", |tally| {
        tally.reused
    }),
];
const KINDS: [Kind; 2] = [
    ("weaver_merge_turnaround_seconds", "From coming to landing", |tally| &tally.turnaround),
    ("weaver_merge_wait_seconds", "From coming to being processed", |tally| &tally.wait),
];

/// Writes them. A queue that cannot be read is told in the log and leaves the other figures alone.
pub(super) async fn merge_queues(state: &AppState, out: &mut String) -> Answer<()> {
    let queues = match state.merge.queues().await {
        Ok(queues) => queues,
        Err(EngineError::Store(error)) => return Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "the figures of the merge queues are left out");
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
    head(out, "weaver_merge_waiting", "gauge", "Changes in line");
    for (queue, label) in all() {
        let _ = writeln!(out, "weaver_merge_waiting{{{label}}} {}", queue.entries.len());
    }
    head(out, "weaver_merge_paused", "gauge", "1 where nothing new is started");
    for (queue, label) in all() {
        let _ = writeln!(out, "weaver_merge_paused{{{label}}} {}", u8::from(queue.paused.is_some()));
    }
    for (name, help, value) in COUNTERS {
        head(out, name, "counter", help);
        for (queue, label) in all() {
            let _ = writeln!(out, "{name}{{{label}}} {}", value(&queue.tally));
        }
    }
    head(out, "weaver_merge_removed_total", "counter", "Changes that left without landing");
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

fn histogram(out: &mut String, name: &str, label: &str, times: &Times) {
    let mut below = 0;
    for (bound, count) in BOUNDS_S.iter().zip(times.buckets) {
        below += count;
        let _ = writeln!(out, "{name}_bucket{{{label},le=\"{bound}\"}} {below}");
    }
    let _ = writeln!(out, "{name}_bucket{{{label},le=\"+Inf\"}} {}", times.count);
    let _ = writeln!(out, "{name}_sum{{{label}}} {}", times.sum_ms as f64 / 1000.0);
    let _ = writeln!(out, "{name}_count{{{label}}} {}", times.count);
}

/// What people ask for first, ready to look at: exact, over the last ones.
fn quantiles(queues: &[MergeQueue], labels: &[String], out: &mut String) {
    let name = "weaver_merge_turnaround_recent_seconds";
    head(out, name, "gauge", "From coming to landing, over the last 100 landings");
    for (queue, label) in queues.iter().zip(labels) {
        for (quantile, percent) in [("0.5", 50), ("0.95", 95)] {
            if let Some(ms) = queue.tally.turnaround.percentile_ms(percent) {
                let _ = writeln!(out, "{name}{{{label},quantile=\"{quantile}\"}} {}", ms as f64 / 1000.0);
            }
        }
    }
}
