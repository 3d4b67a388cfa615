//! Values that are one word in JSON, where they are read or shown one by one: flags of the command, fields of
//! a form.

use serde::Serialize;
use serde::de::{DeserializeOwned, value};
use serde_json::Value;

/// The word of a value: `replace`. Empty for a value that is no word.
pub fn word_of<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The value of a word; the error says which words there are.
pub fn from_word<T: DeserializeOwned>(word: &str) -> Result<T, String> {
    let deserializer = value::StrDeserializer::<value::Error>::new(word);
    T::deserialize(deserializer).map_err(|error| error.to_string())
}
