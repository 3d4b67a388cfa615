//! Whether a document of the scheduler can be read.

use serde::de::DeserializeOwned;

use crate::definition::{DEFINITION_KIND, Stored};
use crate::event::{EVENT_KIND, StoredEvent};
use crate::settings::SETTING_KIND;

/// Why the body of a document of this kind cannot be read. A kind that is not the scheduler's is answered
/// with `Ok`.
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
    fn a_body_that_is_no_schedule_is_named_and_one_of_another_kind_is_not_judged() {
        assert!(check_body(DEFINITION_KIND, b"{}").unwrap_err().contains("missing field"));
        assert!(check_body(EVENT_KIND, b"\xff").is_err());
        assert_eq!(check_body("a program's own", b"\xff"), Ok(()));
    }
}
