//! Event streams of tasks and merge queues.

use reqwest::Response;
use weaver_api::{Change, EVENT_CHANGE, EVENT_END, EVENT_RESYNC, MergeEvent};

use crate::error::ClientError;
use crate::http::Http;
use crate::sse::{LINE_MAX_BYTES, SseEvent, SseReader};

/// An event of a namespace's tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A task changed its state.
    Change {
        /// Resume from here after a lost connection.
        id: String,
        /// The task, its version and its state.
        change: Change,
    },
    /// Events were missed: re-read the tasks you follow.
    Resync {
        /// Resume from here, after reading.
        id: String,
    },
}

/// A stream of task events. It ends with its connection: open another after the last id.
#[derive(Debug)]
pub struct Events(Reader);

/// The event stream of a merge queue. It ends with its connection: open another after the last id.
#[derive(Debug)]
pub struct MergeEvents(Reader);

/// Reads events from a response as its bytes arrive.
#[derive(Debug)]
struct Reader {
    http: Http,
    response: Response,
    sse: SseReader,
}

impl Events {
    pub(crate) fn new(http: Http, response: Response) -> Self {
        Self(Reader::new(http, response))
    }

    /// The next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        while let Some(event) = self.0.next().await? {
            if let Some(event) = task_event(event) {
                return event.map(Some).map_err(|reason| self.0.unexpected(reason));
            }
        }
        Ok(None)
    }
}

impl MergeEvents {
    pub(crate) fn new(http: Http, response: Response) -> Self {
        Self(Reader::new(http, response))
    }

    /// The next event with its id; `None` when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<(String, MergeEvent)>, ClientError> {
        while let Some(event) = self.0.next().await? {
            // Comments keep the connection alive; the last event says why the stream ends.
            if !event.data.is_empty() && event.name != EVENT_END {
                let read = serde_json::from_str(&event.data);
                let read = read.map_err(|error| self.0.unexpected(error.to_string()))?;
                return Ok(Some((event.id, read)));
            }
        }
        Ok(None)
    }
}

impl Reader {
    fn new(http: Http, response: Response) -> Self {
        Self { http, response, sse: SseReader::default() }
    }

    /// The next event or comment; `None` when the stream has ended.
    async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        loop {
            if let Some(event) = self.sse.next_event() {
                return Ok(Some(event));
            }
            if self.sse.is_line_too_long() {
                return Err(
                    self.unexpected(format!("a line of the stream is longer than {LINE_MAX_BYTES} bytes"))
                );
            }
            match self.response.chunk().await.map_err(|error| self.http.unreachable(&error))? {
                Some(chunk) => self.sse.push(&chunk),
                None => return Ok(None),
            }
        }
    }

    fn unexpected(&self, reason: String) -> ClientError {
        ClientError::UnexpectedResponse {
            url: self.response.url().to_string(),
            status: self.response.status().as_u16(),
            reason,
        }
    }
}

/// `None` for comments and unknown events.
fn task_event(event: SseEvent) -> Option<Result<Event, String>> {
    let SseEvent { id, name, data, .. } = event;
    match name.as_str() {
        EVENT_CHANGE => {
            let change = serde_json::from_str(&data).map_err(|error| error.to_string());
            Some(change.map(|change| Event::Change { id, change }))
        }
        EVENT_RESYNC => Some(Ok(Event::Resync { id })),
        // Comments keep the connection alive; later versions may add events.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_resyncs_are_events_and_comments_are_not() {
        let mut reader = SseReader::default();
        let change =
            r#"{"namespace":"default","id":"7","version":2,"state":"running","at":"2026-01-31T09:30:00Z"}"#;
        let stream = format!(
            ": alive\n\nid: a.1\nevent: change\ndata: {change}\n\nid: a.9\nevent: resync\ndata: {{}}\n\n"
        );
        reader.push(stream.as_bytes());
        let events: Vec<_> = std::iter::from_fn(|| reader.next_event())
            .filter_map(task_event)
            .collect::<Result<_, _>>()
            .unwrap();
        let [Event::Change { id, change }, Event::Resync { id: next }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((id.as_str(), change.id.as_str(), next.as_str()), ("a.1", "7", "a.9"));
    }
}
