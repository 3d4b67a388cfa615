//! Server-Sent Events: what all streams have in common, above all how they end.

use std::convert::Infallible;

use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Serialize;
use weaver_api::EVENT_END;

use super::Answer;
use super::watch::Watch;
use crate::problem::Problem;

/// What a stream tells.
pub(crate) trait EventSource: Send {
    /// Who listens.
    fn watch(&self) -> &Watch;
    /// The next event, or why there is none any more.
    fn next(&mut self) -> impl Future<Output = Answer<Event>> + Send;
}

/// A stream of events. It ends with an event that says why, and with a line in the log; one that its client
/// leaves has only the line.
pub(crate) fn stream<S: EventSource + 'static>(
    what: &'static str,
    source: S,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let watch = source.watch();
    let (caller, namespace) = (watch.caller().name().to_owned(), watch.namespace.to_string());
    let farewell = Farewell { what, caller, namespace, reason: "the client disconnected".to_owned() };
    Sse::new(unfold((Some(source), farewell), |(source, mut farewell)| async move {
        let mut source = source?;
        Some(match source.next().await {
            Ok(event) => (Ok(event), (Some(source), farewell)),
            Err(problem) => (Ok(farewell.end(&problem)), (None, farewell)),
        })
    }))
}

/// The data of the last event.
#[derive(Serialize)]
struct End {
    reason: &'static str,
    detail: String,
    next: String,
}

/// Logs the end of a stream, whichever way it ends.
struct Farewell {
    what: &'static str,
    caller: String,
    namespace: String,
    reason: String,
}

impl Farewell {
    fn end(&mut self, problem: &Problem) -> Event {
        let wire = problem.to_wire();
        self.reason = format!("{}: {}", problem.code(), wire.detail);
        let end = End { reason: problem.code(), detail: wire.detail, next: wire.next };
        // Three texts can always be written.
        Event::default().event(EVENT_END).data(serde_json::to_string(&end).unwrap_or_default())
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let Self { what, caller, namespace, reason } = self;
        tracing::info!(stream = what, %caller, %namespace, %reason, "event stream ended");
    }
}
