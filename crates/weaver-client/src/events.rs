//! The streams of events, read as they come.

use reqwest::Response;
use weaver_api::{Change, EVENT_CHANGE, EVENT_END, EVENT_RESYNC, MergeEvent};

use crate::error::ClientError;
use crate::http::Http;
use crate::sse::{LINE_MAX_BYTES, SseEvent, SseReader};

/// Something the stream says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A task moved.
    Change {
        /// The place in the stream, to go on from after a lost connection.
        id: String,
        /// What happened.
        change: Change,
    },
    /// Something may have been missed: read again what you care about.
    Resync {
        /// The place to go on from.
        id: String,
    },
}

/// A stream of events. It ends when the connection does: ask for another after the last id.
#[derive(Debug)]
pub struct Events(Reader);

/// The stream of a merge queue. It ends when the connection does: ask for another after the last id.
#[derive(Debug)]
pub struct MergeEvents(Reader);

/// Events as the server's answer brings them.
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
        while let Some(told) = self.0.next().await? {
            if let Some(event) = task_event(told) {
                return event.map(Some).map_err(|reason| self.0.strange(reason));
            }
        }
        Ok(None)
    }
}

impl MergeEvents {
    pub(crate) fn new(http: Http, response: Response) -> Self {
        Self(Reader::new(http, response))
    }

    /// The place of the next event, and what happened; `None` when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<(String, MergeEvent)>, ClientError> {
        while let Some(told) = self.0.next().await? {
            // Comments keep the connection alive; the last event says why the stream ends.
            if !told.data.is_empty() && told.name != EVENT_END {
                let event = serde_json::from_str(&told.data);
                let event = event.map_err(|error| self.0.strange(error.to_string()))?;
                return Ok(Some((told.id, event)));
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
                    self.strange(format!("a line of the stream is longer than {LINE_MAX_BYTES} bytes"))
                );
            }
            match self.response.chunk().await.map_err(|error| self.http.unreachable(&error))? {
                Some(chunk) => self.sse.push(&chunk),
                None => return Ok(None),
            }
        }
    }

    fn strange(&self, reason: String) -> ClientError {
        ClientError::Strange {
            url: self.response.url().to_string(),
            status: self.response.status().as_u16(),
            reason,
        }
    }
}

/// What a stream of tasks says by an event; `None` for what is not for us.
fn task_event(told: SseEvent) -> Option<Result<Event, String>> {
    let SseEvent { id, name, data, .. } = told;
    match name.as_str() {
        EVENT_CHANGE => {
            let change = serde_json::from_str(&data).map_err(|error| error.to_string());
            Some(change.map(|change| Event::Change { id, change }))
        }
        EVENT_RESYNC => Some(Ok(Event::Resync { id })),
        // Comments keep the connection alive; later versions may say more.
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
