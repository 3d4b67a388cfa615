//! Checks whether a document of a merge queue can be decoded.

use serde::de::DeserializeOwned;

use super::documents::read_queue;
use super::{ENTRY_KIND, EntryDetail, LINK_KIND, QUEUE_KIND, SignedLink};

/// Decodes the body of a document and drops it. Kinds of other subsystems are `Ok`.
///
/// # Errors
/// The decoder's message.
pub fn check_body(kind: &str, body: &[u8]) -> Result<(), String> {
    match kind {
        QUEUE_KIND => read_queue(body).map(drop).map_err(|error| error.to_string()),
        ENTRY_KIND => reads::<EntryDetail>(body),
        LINK_KIND => reads::<SignedLink>(body),
        _ => Ok(()),
    }
}

fn reads<T: DeserializeOwned>(body: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<T>(body).map(drop).map_err(|error| error.to_string())
}
