//! Integers in JSON requests. JSON has one kind of number, and some languages write 30 as `30.0`: both are
//! accepted.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads an integer that fits `T`; refuses fractions and negative numbers.
pub fn integer<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(IntegerVisitor(PhantomData))
}

/// The same for an `Option`: `null` is `None`.
pub fn optional_integer<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    deserializer.deserialize_option(OptionalVisitor(PhantomData))
}

/// Reads a duration in whole milliseconds, for fields whose names end in `_ms`.
pub fn duration_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    integer(deserializer).map(Duration::from_millis)
}

/// Reads an object without fields, for a unit variant of a tagged enum: serde would accept any fields there.
pub fn no_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}

struct IntegerVisitor<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for IntegerVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a whole number of at most {} bits", 8 * size_of::<T>())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        // 2⁵³: up to here a float holds every integer exactly.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        if number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number) {
            return self.visit_u64(number as u64);
        }
        Err(E::invalid_type(Unexpected::Float(number), &self))
    }
}

struct OptionalVisitor<T>(PhantomData<T>);

impl<'de, T: TryFrom<u64>> Visitor<'de> for OptionalVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        IntegerVisitor::<T>(PhantomData).expecting(out)
    }

    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        integer(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Numbers {
        #[serde(deserialize_with = "super::integer")]
        a: u32,
        #[serde(default, deserialize_with = "super::optional_integer")]
        b: Option<u64>,
    }

    #[test]
    fn an_integer_may_be_written_with_a_decimal_point() {
        let read: Numbers = serde_json::from_str(r#"{"a":30.0,"b":2e3}"#).unwrap();
        assert_eq!((read.a, read.b), (30, Some(2000)));
        let read: Numbers = serde_json::from_str(r#"{"a":4294967295,"b":null}"#).unwrap();
        assert_eq!((read.a, read.b), (u32::MAX, None));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [r#"{"a":1.5}"#, r#"{"a":-1}"#, r#"{"a":4294967296}"#, r#"{"a":"1"}"#, r#"{"a":null}"#] {
            assert!(serde_json::from_str::<Numbers>(text).is_err(), "{text}");
        }
    }
}
