//! Whether a document of a merge queue can be read.

use serde::de::DeserializeOwned;

use super::{ENTRY_KIND, EntryDetail, LINK_KIND, QUEUE_KIND, SignedLink};
use crate::domain::MergeQueue;

/// Why the body of a document of this kind cannot be read. A kind that is not a merge queue's is answered
/// with `Ok`.
pub fn check_body(kind: &str, body: &[u8]) -> Result<(), String> {
    match kind {
        QUEUE_KIND => reads::<MergeQueue>(body),
        ENTRY_KIND => reads::<EntryDetail>(body),
        LINK_KIND => reads::<SignedLink>(body),
        _ => Ok(()),
    }
}

fn reads<T: DeserializeOwned>(body: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<T>(body).map(drop).map_err(|error| error.to_string())
}
