//! JSON kept as the text it arrived in: numbers keep their digits, objects their order, and no value tree is
//! built.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weaver_core::error::{Invalid, Problem};

use super::strict::check_strict;

/// Any JSON, as text. Only `serde_json` can read and write it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// A value as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// A text, if it is JSON.
    pub fn from_text(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// Bytes, if they are JSON that every client can read ([`check_strict`]); anything else travels as
    /// hexadecimal digits.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        check_strict(bytes).ok()?;
        Self::from_text(std::str::from_utf8(bytes).ok()?).ok()
    }

    /// The JSON text, exactly as it arrived.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Deserializes the text; fails if it has another shape.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self::of(value).unwrap_or_else(|_| unreachable!("a value is JSON"))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl std::fmt::Debug for Json {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Hexadecimal digits as bytes.
pub(crate) fn from_hex(field: &'static str, text: &str) -> Result<Vec<u8>, Invalid> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect::<Option<_>>().ok_or_else(|| {
        let reason = "it is not an even number of hexadecimal digits".to_owned();
        Invalid::new(field, Problem::Undecodable { reason })
    })
}
