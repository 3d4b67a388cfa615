//! Metrics in the Prometheus text format.

mod histogram;
mod merge;
mod observe;
mod quarantine;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use parking_lot::Mutex;
use weaver_core::ports::{Counts, Scope};
use weaver_core::task::TaskState;

use super::caller::{Caller, Permission};
use super::{ApiResult, AppState};
use histogram::Histogram;
pub(crate) use observe::observe;

/// The most queues with series of their own; the rest share one series.
const QUEUES_MAX: usize = 500;
/// The label value of the shared series.
const OTHER: &str = "other";
/// The most namespaces whose tasks are counted.
const NAMESPACES_MAX: u32 = 200;

/// A counter of the store's own, such as requests to DynamoDB and how many were throttled.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The Prometheus name. Metrics of one name must be adjacent.
    pub name: &'static str,
    /// The `# HELP` text.
    pub help: &'static str,
    /// A label's name and value.
    pub label: Option<(&'static str, String)>,
    /// The count since the server started.
    pub value: f64,
}

/// Reads the store's own counters; called for every scrape.
pub type StoreMetrics = Arc<dyn Fn() -> Vec<Metric> + Send + Sync>;

/// Counters since the server started.
#[derive(Default)]
pub(crate) struct Metrics {
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    /// Transitions into each state.
    moves: [u64; TaskState::ALL.len()],
    missed: u64,
    store: BTreeMap<&'static str, Histogram>,
    queues: BTreeMap<(String, String), PerQueue>,
}

#[derive(Default, Clone)]
struct PerQueue {
    losses: u64,
    wait: Histogram,
    run: Histogram,
}

impl Metrics {
    pub(crate) fn store_answered(&self, call: &'static str, took: Duration) {
        self.counted.lock().store.entry(call).or_default().add(took);
    }

    fn changed(&self, state: TaskState) {
        self.counted.lock().moves[state.index()] += 1;
    }

    fn missed(&self) {
        self.counted.lock().missed += 1;
    }

    fn lost(&self, queue: (&str, &str)) {
        self.counted.lock().queue(queue).losses += 1;
    }

    fn ran(&self, queue: (&str, &str), wait: Option<Duration>, run: Duration) {
        let mut counted = self.counted.lock();
        let queue = counted.queue(queue);
        queue.run.add(run);
        if let Some(wait) = wait {
            queue.wait.add(wait);
        }
    }
}

impl Counted {
    fn queue(&mut self, (namespace, queue): (&str, &str)) -> &mut PerQueue {
        let mut key = (namespace.to_owned(), queue.to_owned());
        if self.queues.len() >= QUEUES_MAX && !self.queues.contains_key(&key) {
            key = (OTHER.to_owned(), OTHER.to_owned());
        }
        self.queues.entry(key).or_default()
    }

    fn write(&self, out: &mut String) {
        head(out, "weaver_task_transitions_total", "counter", "Task transitions into each state");
        for state in TaskState::ALL {
            let _ = writeln!(
                out,
                "weaver_task_transitions_total{{state=\"{state}\"}} {}",
                self.moves[state.index()]
            );
        }
        head(
            out,
            "weaver_changes_missed_total",
            "counter",
            "Times the server fell behind the change log and skipped changes",
        );
        let _ = writeln!(out, "weaver_changes_missed_total {}", self.missed);
        head(out, "weaver_leases_expired_total", "counter", "Attempts lost because their lease expired");
        for (key, queue) in &self.queues {
            let _ = writeln!(out, "weaver_leases_expired_total{{{}}} {}", labels(key), queue.losses);
        }
        head(out, "weaver_task_wait_seconds", "histogram", "Time from due to start (sampled under load)");
        for (key, queue) in &self.queues {
            queue.wait.write(out, "weaver_task_wait_seconds", &labels(key));
        }
        head(out, "weaver_task_run_seconds", "histogram", "Duration of attempts (sampled under load)");
        for (key, queue) in &self.queues {
            queue.run.write(out, "weaver_task_run_seconds", &labels(key));
        }
        head(out, "weaver_store_seconds", "histogram", "Latency of store calls");
        for (call, histogram) in &self.store {
            histogram.write(out, "weaver_store_seconds", &format!("call=\"{call}\""));
        }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail; so for all lines of this file.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn labels((namespace, queue): &(String, String)) -> String {
    format!("namespace=\"{}\",queue=\"{}\"", escaped(namespace), escaped(queue))
}

/// Names contain no control characters, so quotes and backslashes are all there is to escape.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Metrics of the whole server.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "Prometheus text format", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(state): State<AppState>, caller: Caller) -> ApiResult<impl IntoResponse> {
    caller.require_everywhere(Permission::ReadMetrics)?;
    let mut out = String::new();
    tasks(&state, &mut out).await?;
    merge::merge_queues(&state, &mut out).await?;
    quarantine::quarantined(&state, &mut out).await?;
    let (known, anonymous) = state.admission.connected();
    head(&mut out, "weaver_connections", "gauge", "Open connections, authenticated or anonymous");
    let _ = writeln!(out, "weaver_connections{{caller=\"token\"}} {known}");
    let _ = writeln!(out, "weaver_connections{{caller=\"anonymous\"}} {anonymous}");
    head(&mut out, "weaver_body_bytes_reserved", "gauge", "Memory reserved for request bodies");
    let _ = writeln!(out, "weaver_body_bytes_reserved {}", state.bodies.reserved());
    state.metrics.counted.lock().write(&mut out);
    if let Some(read) = &state.store_metrics {
        write_store_metrics(&read(), &mut out);
    }
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out))
}

fn write_store_metrics(metrics: &[Metric], out: &mut String) {
    let mut last = "";
    for Metric { name, help, label, value } in metrics {
        if *name != last {
            head(out, name, "counter", help);
            last = name;
        }
        let label = label.as_ref().map(|(name, value)| format!("{{{name}=\"{}\"}}", escaped(value)));
        let _ = writeln!(out, "{name}{} {value}", label.unwrap_or_default());
    }
}

/// Tasks by queue, for [`QUEUES_MAX`] queues. The rest of each namespace is its total minus those queues, so
/// that a namespace with 20,000 queues costs one more count.
async fn tasks(state: &AppState, out: &mut String) -> ApiResult<()> {
    let mut waits = String::new();
    head(out, "weaver_tasks", "gauge", "Tasks in each state");
    let page = state.store.list_namespaces(None, NAMESPACES_MAX).await?;
    let mut left = QUEUES_MAX;
    for namespace in page.items {
        let mut queues = state.store.list_queues(&namespace).await?;
        let is_cut = queues.len() > left;
        queues.truncate(left);
        left -= queues.len();
        let mut rest = match is_cut {
            true => {
                Some(state.timed("counts", state.store.counts(Scope::Namespace(namespace.clone()))).await?)
            }
            false => None,
        };
        for queue in queues {
            let scope = Scope::Queue(namespace.clone(), queue.name.clone());
            let counts = state.timed("counts", state.store.counts(scope)).await?;
            if let Some(rest) = &mut rest {
                for (state, count) in counts.values.iter() {
                    rest.values.set(state, rest.values.get(state).saturating_sub(count));
                }
            }
            write_counts(&(namespace.to_string(), queue.name.to_string()), &counts, out, &mut waits);
        }
        if let Some(rest) = rest {
            write_counts(&(namespace.to_string(), OTHER.to_owned()), &rest, out, &mut waits);
        }
    }
    head(out, "weaver_queue_oldest_wait_seconds", "gauge", "Wait of the oldest due task");
    out.push_str(&waits);
    head(out, "weaver_namespaces_uncounted", "gauge", "1 if some namespaces are missing from these metrics");
    let _ = writeln!(out, "weaver_namespaces_uncounted {}", u8::from(page.next.is_some()));
    Ok(())
}

fn write_counts(key: &(String, String), counts: &Counts, out: &mut String, waits: &mut String) {
    let labels = labels(key);
    for (task_state, count) in counts.values.iter() {
        let _ = writeln!(out, "weaver_tasks{{{labels},state=\"{task_state}\"}} {count}");
    }
    let oldest = counts.oldest_wait().unwrap_or_default().as_secs_f64();
    let _ = writeln!(waits, "weaver_queue_oldest_wait_seconds{{{labels}}} {oldest}");
}
