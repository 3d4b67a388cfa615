//! `Last-Event-ID`: the position that a client of an event stream resumes from. Parsed here for every stream,
//! so that an invalid value is treated the same everywhere.

use axum::http::HeaderMap;
use weaver_core::event::ChangeCursor;
use weaver_core::ports::Seq;

use crate::problem::Problem;
use crate::security::SealingKey;

/// Where a stream of changes starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// At the end of the log: the client sent no id.
    Now,
    After(ChangeCursor),
    /// At the end of the log, after a `resync` event: the client sent an id that cannot be resumed from.
    Resync,
}

/// The position in the change log. An id in the plain form of earlier versions means resync: accepting it
/// would let clients probe for changes of other namespaces.
pub(crate) fn change_place(headers: &HeaderMap, key: &SealingKey) -> Result<Resume, Problem> {
    let opened = read(headers, |text| match key.open_place(text) {
        Some(place) => Some(Resume::After(place)),
        None => text.parse::<ChangeCursor>().ok().map(|_| Resume::Resync),
    })?;
    Ok(opened.unwrap_or(Resume::Now))
}

/// The position in a journal; `None` if the client sent none.
pub(crate) fn journal_place(headers: &HeaderMap) -> Result<Option<Seq>, Problem> {
    read(headers, |text| text.parse().ok().map(Seq))
}

fn read<T>(headers: &HeaderMap, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    value.to_str().ok().and_then(parse).map(Some).ok_or_else(|| {
        Problem::bad_request(
            "invalid_last_event_id",
            "the header Last-Event-ID is not the id of an event of this stream",
            "send the id of a received event, or omit the header to start at the end of the log",
        )
        .field("last-event-id")
    })
}
