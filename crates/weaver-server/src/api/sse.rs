//! Server-Sent Events: what all streams share, in particular how they end.

use std::convert::Infallible;

use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Serialize;
use weaver_api::EVENT_END;

use super::ApiResult;
use super::watch::Watch;
use crate::problem::Problem;

/// The events of a stream.
pub(crate) trait EventSource: Send {
    /// The caller and its permission, for rechecks and the log.
    fn watch(&self) -> &Watch;
    /// The next event, or why the stream ends.
    fn next(&mut self) -> impl Future<Output = ApiResult<Event>> + Send;
}

/// A stream of events. Its last event, `end`, has the reason; the end is also logged, as is a disconnect by
/// the client.
pub(crate) fn stream<S: EventSource + 'static>(
    what: &'static str,
    source: S,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let watch = source.watch();
    let (caller, namespace) = (watch.caller().name().to_owned(), watch.namespace.to_string());
    let end_log = EndLog { what, caller, namespace, reason: "the client disconnected".to_owned() };
    Sse::new(unfold((Some(source), end_log), |(source, mut end_log)| async move {
        let mut source = source?;
        Some(match source.next().await {
            Ok(event) => (Ok(event), (Some(source), end_log)),
            Err(problem) => (Ok(end_log.end(&problem)), (None, end_log)),
        })
    }))
}

/// The data of the event `end`.
#[derive(Serialize)]
struct End {
    reason: &'static str,
    detail: String,
    hint: String,
}

/// Logs the end of a stream on drop, so that disconnects are logged too.
struct EndLog {
    what: &'static str,
    caller: String,
    namespace: String,
    reason: String,
}

impl EndLog {
    fn end(&mut self, problem: &Problem) -> Event {
        let wire = problem.to_wire();
        self.reason = format!("{}: {}", problem.code(), wire.detail);
        let end = End { reason: problem.code(), detail: wire.detail, hint: wire.hint };
        // Strings: serializing them cannot fail.
        Event::default().event(EVENT_END).data(serde_json::to_string(&end).unwrap_or_default())
    }
}

impl Drop for EndLog {
    fn drop(&mut self) {
        let Self { what, caller, namespace, reason } = self;
        tracing::info!(stream = what, %caller, %namespace, %reason, "event stream ended");
    }
}
