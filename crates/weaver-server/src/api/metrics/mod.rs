//! Figures for Prometheus.

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
use super::{Answer, AppState};
use histogram::Histogram;
pub(crate) use observe::observe;

/// The most queues with figures of their own; those beyond share one line.
const QUEUES_MAX: usize = 500;
/// The label of what has no line of its own.
const OTHER: &str = "other";
/// The most namespaces whose tasks are counted.
const NAMESPACES_MAX: u32 = 200;

/// A figure of the store's own, for its operators: what it asked of a service, and how often that had enough
/// of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// As Prometheus knows it. Figures of one name follow each other.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// What it is about, by a label's name and value.
    pub label: Option<(&'static str, String)>,
    /// How much since the server started.
    pub value: f64,
}

/// Reads the figures of a store.
pub type Figures = Arc<dyn Fn() -> Vec<Figure> + Send + Sync>;

/// What is counted while the server runs.
#[derive(Default)]
pub(crate) struct Metrics {
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    /// Moves into each state.
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
        head(
            out,
            "weaver_task_moves_total",
            "counter",
            "Moves of tasks into each state, since the server started",
        );
        for state in TaskState::ALL {
            let _ =
                writeln!(out, "weaver_task_moves_total{{state=\"{state}\"}} {}", self.moves[state.index()]);
        }
        head(
            out,
            "weaver_changes_missed_total",
            "counter",
            "Times that more happened than the server could watch",
        );
        let _ = writeln!(out, "weaver_changes_missed_total {}", self.missed);
        head(out, "weaver_lease_losses_total", "counter", "Workers that vanished with a task");
        for (key, queue) in &self.queues {
            let _ = writeln!(out, "weaver_lease_losses_total{{{}}} {}", labels(key), queue.losses);
        }
        head(out, "weaver_task_wait_seconds", "histogram", "From due to start (sampled under load)");
        for (key, queue) in &self.queues {
            queue.wait.write(out, "weaver_task_wait_seconds", &labels(key));
        }
        head(out, "weaver_task_run_seconds", "histogram", "From start to end (sampled under load)");
        for (key, queue) in &self.queues {
            queue.run.write(out, "weaver_task_run_seconds", &labels(key));
        }
        head(out, "weaver_store_seconds", "histogram", "How long the store took to answer");
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

/// Names may have anything but control characters in them.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Figures of the whole server.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "Prometheus text", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(state): State<AppState>, caller: Caller) -> Answer<impl IntoResponse> {
    caller.require_everywhere(Permission::ReadMetrics)?;
    let mut out = String::new();
    tasks(&state, &mut out).await?;
    merge::merge_queues(&state, &mut out).await?;
    quarantine::quarantined(&state, &mut out).await?;
    let (known, anonymous) = state.admission.connected();
    head(&mut out, "weaver_connections", "gauge", "Connections, by whether a token was shown");
    let _ = writeln!(out, "weaver_connections{{caller=\"token\"}} {known}");
    let _ = writeln!(out, "weaver_connections{{caller=\"anonymous\"}} {anonymous}");
    head(&mut out, "weaver_body_bytes_reserved", "gauge", "Bytes reserved for request bodies being read");
    let _ = writeln!(out, "weaver_body_bytes_reserved {}", state.bodies.reserved());
    state.metrics.counted.lock().write(&mut out);
    if let Some(figures) = &state.figures {
        write_figures(&figures(), &mut out);
    }
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], out))
}

fn write_figures(figures: &[Figure], out: &mut String) {
    let mut last = "";
    for Figure { name, help, label, value } in figures {
        if *name != last {
            head(out, name, "counter", help);
            last = name;
        }
        let label = label.as_ref().map(|(name, value)| format!("{{{name}=\"{}\"}}", escaped(value)));
        let _ = writeln!(out, "{name}{} {value}", label.unwrap_or_default());
    }
}

/// Tasks by queue, for [`QUEUES_MAX`] queues; the rest of each namespace as its whole without those, so that
/// a namespace with twenty thousand queues costs one more count.
async fn tasks(state: &AppState, out: &mut String) -> Answer<()> {
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
    head(
        out,
        "weaver_queue_oldest_wait_seconds",
        "gauge",
        "How long the longest-waiting due task has waited",
    );
    out.push_str(&waits);
    head(out, "weaver_namespaces_uncounted", "gauge", "1 if there are more namespaces than are counted here");
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
