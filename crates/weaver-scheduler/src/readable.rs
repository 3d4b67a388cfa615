//! Decoding check of the scheduler's documents, for `weaver store check`.

use serde::de::DeserializeOwned;

use crate::definition::{DEFINITION_KIND, Stored};
use crate::event::{EVENT_KIND, StoredEvent};
use crate::settings::SETTING_KIND;

/// Checks that the body of a document of this kind can be decoded. Kinds of other components are `Ok`.
pub fn check_body(kind: &str, body: &[u8]) -> Result<(), String> {
    match kind {
        DEFINITION_KIND => reads::<Stored>(body),
        EVENT_KIND => reads::<StoredEvent>(body),
        SETTING_KIND => reads::<serde_json::Value>(body),
        _ => Ok(()),
    }
}

fn reads<T: DeserializeOwned>(body: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<T>(body).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_no_schedule_is_refused_and_other_kinds_are_ignored() {
        assert!(check_body(DEFINITION_KIND, b"{}").unwrap_err().contains("missing field"));
        assert!(check_body(EVENT_KIND, b"\xff").is_err());
        assert_eq!(check_body("a program's own", b"\xff"), Ok(()));
    }
}
