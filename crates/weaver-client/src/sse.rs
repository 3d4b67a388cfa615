//! Server-Sent Events: bytes in, events out. The only parser of the format, for every stream of a Weaver
//! server.

use bytes::{Buf, BytesMut};

/// The longest line of a stream; a longer one does not come from a Weaver server. An event of a merge queue
/// contains the ends of its checks' logs.
pub const LINE_MAX_BYTES: usize = 1024 * 1024;

/// An event, or a comment between events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Where to resume, sent back as `Last-Event-ID`: the event's own id, or the last one before it. Empty
    /// before the first.
    pub id: String,
    /// The event's name; empty if it has none.
    pub name: String,
    /// Its data, with lines joined by line feeds. Empty for a comment, which only keeps the connection alive.
    pub data: String,
    /// The text of a comment.
    pub comment: String,
}

/// Parses events from the bytes of a stream, however they are split.
#[derive(Debug, Default)]
pub struct SseReader {
    buffer: BytesMut,
    /// The event so far. Its id is kept for the events that follow.
    event: SseEvent,
    /// Whether lines arrived since the last empty one.
    has_lines: bool,
}

impl SseReader {
    /// Appends bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event; `None` until more bytes arrive.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        while let Some(line) = self.take_line() {
            if !line.is_empty() {
                self.take_in(&line);
            } else if std::mem::take(&mut self.has_lines) {
                let id = self.event.id.clone();
                return Some(std::mem::replace(&mut self.event, SseEvent { id, ..SseEvent::default() }));
            }
        }
        None
    }

    /// Whether the current line exceeds [`LINE_MAX_BYTES`]: give up on the stream.
    pub fn is_line_too_long(&self) -> bool {
        self.buffer.len() > LINE_MAX_BYTES
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let line = self.buffer.split_to(end);
        self.buffer.advance(1);
        Some(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned())
    }

    fn take_in(&mut self, line: &str) {
        self.has_lines = true;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => value.clone_into(&mut self.event.id),
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "" => value.clone_into(&mut self.event.comment),
            // `retry` is for browsers; later versions may add fields.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut SseReader, bytes: &[u8]) -> Vec<SseEvent> {
        reader.push(bytes);
        std::iter::from_fn(|| reader.next_event()).collect()
    }

    fn event(id: &str, name: &str, data: &str) -> SseEvent {
        SseEvent { id: id.into(), name: name.into(), data: data.into(), comment: String::new() }
    }

    const STREAM: &str = ": listening\nid: a.1\n\nevent: change\nid: a.2\ndata: {\ndata: }\n\nretry: 500\r\n\
                          event: change\r\ndata:7\r\n\r\n\n";

    fn expected() -> Vec<SseEvent> {
        let greeting = SseEvent { comment: "listening".into(), ..event("a.1", "", "") };
        vec![greeting, event("a.2", "change", "{\n}"), event("a.2", "change", "7")]
    }

    #[test]
    fn an_event_without_an_id_has_the_last_id() {
        assert_eq!(read(&mut SseReader::default(), STREAM.as_bytes()), expected());
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_split() {
        for size in 1..STREAM.len() {
            let mut reader = SseReader::default();
            let parts = STREAM.as_bytes().chunks(size);
            let events: Vec<_> = parts.flat_map(|part| read(&mut reader, part)).collect();
            assert_eq!(events, expected(), "in parts of {size} bytes");
        }
    }

    #[test]
    fn an_event_is_returned_once_complete_and_an_endless_line_is_too_long() {
        let mut reader = SseReader::default();
        assert_eq!(read(&mut reader, b"id: a.1\nevent: change\ndata: 7\n"), []);
        assert_eq!(read(&mut reader, b"\n"), [event("a.1", "change", "7")]);
        assert!(!reader.is_line_too_long());
        reader.push(&vec![b'x'; LINE_MAX_BYTES + 1]);
        assert!(reader.next_event().is_none() && reader.is_line_too_long());
    }
}
