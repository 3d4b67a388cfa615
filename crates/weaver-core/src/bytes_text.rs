//! Bytes in JSON: a string where they are UTF-8, else an object with hexadecimal digits under `hex`.
//!
//! Use it with `#[serde(with = "bytes_text")]`, or `bytes_text::optional`.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a string, or `{"hex": "…"}`.
pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    Form::of(bytes).serialize(serializer)
}

/// Reads either form; refuses an odd number of digits.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    Form::deserialize(deserializer)?.into_bytes().map_err(serde::de::Error::custom)
}

/// The same for an `Option`.
pub mod optional {
    use super::{Bytes, Deserialize, Deserializer, Form, Serialize, Serializer};

    /// Writes `null` for `None`.
    pub fn serialize<S: Serializer>(bytes: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| Form::of(bytes)).serialize(serializer)
    }

    /// Reads `null` as `None`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
        let form = Option::<Form>::deserialize(deserializer)?;
        form.map(|form| form.into_bytes().map_err(serde::de::Error::custom)).transpose()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Hex { hex: String },
}

impl Form {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex { hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect() },
        }
    }

    fn into_bytes(self) -> Result<Bytes, String> {
        let hex = match self {
            Self::Text(text) => return Ok(Bytes::from(text)),
            Self::Hex { hex } => hex,
        };
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(pair).collect();
        bytes.map(Bytes::from).ok_or_else(|| format!("`{hex}` is not an even number of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Line {
        #[serde(with = "super")]
        body: Bytes,
    }

    fn round_trip(body: &'static [u8]) -> String {
        let text = serde_json::to_string(&Line { body: Bytes::from_static(body) }).unwrap();
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap().body, body);
        text
    }

    #[test]
    fn text_is_written_as_text_and_anything_else_in_hexadecimal_digits() {
        assert_eq!(round_trip(b"{\"to\":1}"), r#"{"body":"{\"to\":1}"}"#);
        assert_eq!(round_trip(b"\xff\x00"), r#"{"body":{"hex":"ff00"}}"#);
        assert_eq!(round_trip(b""), r#"{"body":""}"#);
    }

    #[test]
    fn invalid_hexadecimal_digits_are_refused() {
        for text in [r#"{"body":{"hex":"f"}}"#, r#"{"body":{"hex":"zz"}}"#] {
            assert!(serde_json::from_str::<Line>(text).is_err(), "{text}");
        }
    }
}
