//! `Last-Event-ID`: the place that a client of an event stream goes on from. Read here for every stream, so
//! that a value that is no place is treated the same everywhere.

use axum::http::HeaderMap;
use weaver_core::event::ChangeCursor;
use weaver_core::ports::Seq;

use crate::problem::Problem;
use crate::security::SealingKey;

/// Where a stream of changes begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// With what happens from now on: the client names no place.
    Now,
    /// After this place.
    After(ChangeCursor),
    /// From now on, and the client reads again what it shows: what it sent is a place, but not one to go on
    /// from.
    Resync,
}

/// The place in the store's changes. One in the plain form of earlier versions is not believed, because it
/// would let clients look for where the changes of other namespaces lie: it means resync.
pub(crate) fn change_place(headers: &HeaderMap, key: &SealingKey) -> Result<Resume, Problem> {
    let opened = read(headers, |text| match key.open_place(text) {
        Some(place) => Some(Resume::After(place)),
        None => text.parse::<ChangeCursor>().ok().map(|_| Resume::Resync),
    })?;
    Ok(opened.unwrap_or(Resume::Now))
}

/// The place in a journal; `None` if the client names none.
pub(crate) fn journal_place(headers: &HeaderMap) -> Result<Option<Seq>, Problem> {
    read(headers, |text| text.parse().ok().map(Seq))
}

fn read<T>(headers: &HeaderMap, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    value.to_str().ok().and_then(parse).map(Some).ok_or_else(|| {
        Problem::bad_request(
            "invalid_last_event_id",
            "the header Last-Event-ID is not the id of an event of this stream",
            "send back an id that an event carried, or leave the header out to begin now",
        )
        .field("last-event-id")
    })
}
