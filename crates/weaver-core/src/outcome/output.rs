//! Converts a handler's return value to an outcome.

use bytes::Bytes;
use serde::Serialize;

use super::Outcome;

/// What a handler may return: anything that serializes to JSON, or an [`Outcome`].
pub trait IntoOutcome {
    /// The outcome to report; a value that does not serialize is a fatal failure.
    fn into_outcome(self) -> Outcome;
}

impl<Output: Serialize> IntoOutcome for Output {
    fn into_outcome(self) -> Outcome {
        encode(&self)
    }
}

// Possible beside the above because an outcome is no JSON, and must not become any.
impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

/// `()` is no result; anything else is stored as JSON.
fn encode<Output: Serialize>(output: &Output) -> Outcome {
    let mut json = Json::default();
    match serde_json::to_writer(&mut json, output) {
        Ok(()) if json.is_null() => Outcome::DONE,
        Ok(()) => Outcome::Succeeded { result: Some(json.into_bytes()) },
        Err(error) => Outcome::fatal(format!("its result cannot be written as JSON: {error}")),
    }
}

/// A buffer that allocates only above 32 bytes: most results are `null` or short.
#[derive(Default)]
struct Json {
    short: [u8; 32],
    short_bytes: usize,
    /// All of it, once it does not fit.
    long: Vec<u8>,
}

impl Json {
    fn is_null(&self) -> bool {
        self.long.is_empty() && self.short[..self.short_bytes] == *b"null"
    }

    fn into_bytes(self) -> Bytes {
        if self.long.is_empty() {
            Bytes::copy_from_slice(&self.short[..self.short_bytes])
        } else {
            self.long.into()
        }
    }
}

impl std::io::Write for Json {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        let end = self.short_bytes + text.len();
        if self.long.is_empty() && end <= self.short.len() {
            self.short[self.short_bytes..end].copy_from_slice(text);
            self.short_bytes = end;
        } else {
            if self.long.is_empty() {
                self.long.extend_from_slice(&self.short[..self.short_bytes]);
            }
            self.long.extend_from_slice(text);
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_kept_as_json_whatever_its_length() {
        assert_eq!(encode(&()), Outcome::DONE);
        for length in [0, 1, 29, 30, 31, 32, 33, 500] {
            let text = "x".repeat(length);
            let expected = Outcome::Succeeded { result: Some(format!("\"{text}\"").into()) };
            assert_eq!(encode(&text), expected, "{length} letters");
        }
    }
}
