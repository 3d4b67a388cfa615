//! Enum values that are one word in JSON, where they are read or shown one by one: command-line flags, form
//! fields.

use serde::Serialize;
use serde::de::{DeserializeOwned, value};
use serde_json::Value;

/// The JSON word of a value, such as `replace`; empty if its JSON is no string.
pub fn word_of<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Parses a word; the error lists the accepted ones.
pub fn from_word<T: DeserializeOwned>(word: &str) -> Result<T, String> {
    let deserializer = value::StrDeserializer::<value::Error>::new(word);
    T::deserialize(deserializer).map_err(|error| error.to_string())
}
