//! A [`Cause`] as one word on the wire; stored records have serde's form.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weaver_core::task::Cause;

pub(crate) fn serialize<S: Serializer>(cause: &Option<Cause>, serializer: S) -> Result<S::Ok, S::Error> {
    cause.map(Cause::as_str).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cause>, D::Error> {
    let word: Option<Cow<'de, str>> = Option::deserialize(deserializer)?;
    let read = |word: Cow<'de, str>| {
        Cause::from_word(&word).ok_or_else(|| D::Error::custom(format_args!("`{word}` is not a cause")))
    };
    word.map(read).transpose()
}
