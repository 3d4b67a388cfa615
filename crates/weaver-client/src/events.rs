//! The stream of events, read line by line as it comes.

use bytes::{Buf, BytesMut};
use reqwest::Response;

use crate::error::ClientError;
use crate::http::Http;
use crate::wire::{Change, EVENT_CHANGE, EVENT_RESYNC, MergeEvent};

/// The longest line of a stream: longer ones come from something else than a Weaver server. An event of a merge queue has
/// the ends of its checks' logs in it.
const LINE_MAX_BYTES: usize = 1024 * 1024;

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

/// Reads a stream line by line.
#[derive(Debug)]
struct Reader {
    http: Http,
    response: Response,
    buffer: BytesMut,
    fields: Fields,
}

#[derive(Debug, Default)]
struct Fields {
    id: String,
    event: String,
    data: String,
}

impl Events {
    pub(crate) fn new(http: Http, response: Response) -> Self {
        Self(Reader::new(http, response))
    }

    /// The next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        while let Some(fields) = self.0.next().await? {
            if let Some(event) = fields.into_event() {
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
        while let Some(fields) = self.0.next().await? {
            // Comments keep the connection alive.
            if !fields.data.is_empty() {
                let event = serde_json::from_str(&fields.data);
                let event = event.map_err(|error| self.0.strange(error.to_string()))?;
                return Ok(Some((fields.id, event)));
            }
        }
        Ok(None)
    }
}

impl Reader {
    fn new(http: Http, response: Response) -> Self {
        Self { http, response, buffer: BytesMut::new(), fields: Fields::default() }
    }

    /// The next block of lines; `None` when the stream has ended.
    async fn next(&mut self) -> Result<Option<Fields>, ClientError> {
        loop {
            while let Some(line) = self.take_line() {
                if let Some(fields) = self.fields.take_in(&line) {
                    return Ok(Some(fields));
                }
            }
            if self.buffer.len() > LINE_MAX_BYTES {
                return Err(self.strange("a line without an end".to_owned()));
            }
            match self.response.chunk().await.map_err(|error| self.http.unreachable(&error))? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let line = self.buffer.split_to(end);
        self.buffer.advance(1);
        Some(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned())
    }

    fn strange(&self, reason: String) -> ClientError {
        ClientError::Strange {
            url: self.response.url().to_string(),
            status: self.response.status().as_u16(),
            reason,
        }
    }
}

impl Fields {
    /// What a stream of tasks says by it; `None` for what is not for us.
    fn into_event(self) -> Option<Result<Event, String>> {
        let Self { id, event, data } = self;
        match event.as_str() {
            EVENT_CHANGE => Some(
                serde_json::from_str(&data)
                    .map(|change| Event::Change { id, change })
                    .map_err(|error| error.to_string()),
            ),
            EVENT_RESYNC => Some(Ok(Event::Resync { id })),
            // Comments keep the connection alive; later versions may say more.
            _ => None,
        }
    }

    /// Takes a line in; an empty one ends an event.
    fn take_in(&mut self, line: &str) -> Option<Self> {
        if line.is_empty() {
            return Some(std::mem::take(self));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => value.clone_into(&mut self.id),
            "event" => value.clone_into(&mut self.event),
            "data" => self.data.push_str(value),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_and_comments_do_not() {
        let mut fields = Fields::default();
        let change =
            r#"{"namespace":"default","id":"7","version":2,"state":"running","at":"2026-01-31T09:30:00Z"}"#;
        let lines = [": still here", "", "id: a.1", "event: change", &format!("data: {change}"), ""];
        let events: Vec<_> = lines.iter().filter_map(|line| fields.take_in(line)?.into_event()).collect();
        assert!(matches!(&events[..], [Ok(Event::Change { id, change })] if id == "a.1" && change.id == "7"));
        let lines = ["id: a.9", "event: resync", "data: ", ""];
        let events: Vec<_> = lines.iter().filter_map(|line| fields.take_in(line)?.into_event()).collect();
        assert_eq!(events, [Ok(Event::Resync { id: "a.9".to_owned() })]);
    }
}
