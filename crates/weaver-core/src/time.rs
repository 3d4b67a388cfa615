//! Time as data. Records hold wall-clock [`Timestamp`]s; waits and held leases are measured in [`Monotonic`]
//! time, which never jumps. Both come from a [`Clock`](crate::clock::Clock) that the caller passes in.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A wall-clock instant with microsecond resolution, written as RFC 3339 in UTC.
///
/// Microseconds because that is what PostgreSQL keeps: an instant survives every store unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
// One more than the microseconds since 1970, so that zero is free and an `Option` of it is no larger: a
// record has many.
pub struct Timestamp(NonZeroU64);

impl Timestamp {
    /// The earliest instant a record can hold: 1970-01-01T00:00:00Z.
    pub const MIN: Self = Self::from_micros(0);
    /// The latest instant a record can hold: 9999-12-30T22:00:00Z, the last that RFC 3339 can write
    /// everywhere.
    pub const MAX: Self = Self::from_micros(MAX_MICROS);

    /// The instant this many microseconds after 1970-01-01T00:00:00Z, clamped to what a record can hold.
    pub const fn from_micros(micros: i64) -> Self {
        let micros = if micros < 0 {
            0
        } else if micros > MAX_MICROS {
            MAX_MICROS
        } else {
            micros
        };
        match NonZeroU64::new(micros as u64 + 1) {
            Some(one_more) => Self(one_more),
            None => unreachable!(),
        }
    }

    /// Microseconds since 1970-01-01T00:00:00Z; never negative.
    pub const fn as_micros(self) -> i64 {
        (self.0.get() - 1) as i64
    }

    /// This instant moved into the future, or `None` past [`Timestamp::MAX`].
    pub fn checked_add(self, delay: Duration) -> Option<Self> {
        let micros = i64::try_from(delay.as_micros()).ok()?;
        self.as_micros().checked_add(micros).filter(|sum| *sum <= MAX_MICROS).map(Self::from_micros)
    }

    /// This instant moved into the future, at most to [`Timestamp::MAX`].
    pub fn saturating_add(self, delay: Duration) -> Self {
        self.checked_add(delay).unwrap_or(Self::MAX)
    }

    /// This instant moved into the past, at most to [`Timestamp::MIN`].
    pub fn saturating_sub(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.as_micros().saturating_sub(micros))
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.as_micros() - earlier.as_micros()).unwrap_or(0))
    }
}

const MAX_MICROS: i64 = 253_402_207_200_000_000;

impl Default for Timestamp {
    fn default() -> Self {
        Self::MIN
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.as_micros()) {
            // Always six digits: the texts sort as the instants do.
            Ok(instant) => write!(out, "{instant:.6}"),
            Err(_) => write!(out, "{}us", self.as_micros()),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Text that is not an RFC 3339 instant between [`Timestamp::MIN`] and [`Timestamp::MAX`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an instant: write RFC 3339 with a zone, between 1970 and 9999, like 2026-01-31T09:30:00Z"
)]
pub struct NotAnInstant(String);

impl FromStr for Timestamp {
    type Err = NotAnInstant;

    fn from_str(text: &str) -> Result<Self, NotAnInstant> {
        let instant: jiff::Timestamp = text.parse().map_err(|_| NotAnInstant(text.to_owned()))?;
        let micros = instant.as_microsecond();
        if (0..=MAX_MICROS).contains(&micros) {
            Ok(Self::from_micros(micros))
        } else {
            Err(NotAnInstant(text.to_owned()))
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A point on a clock that never jumps: the time since that clock started. Only comparable within one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Monotonic(pub Duration);

impl Monotonic {
    /// This point moved into the future; saturates, so a huge timeout never ends.
    pub fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Durations as whole milliseconds in documents, under field names that end in `_ms`.
pub(crate) mod duration_ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// The same for an optional duration.
pub(crate) mod optional_duration_ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let millis = span.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        millis.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_survives_its_text_form() {
        let instant = Timestamp::from_micros(1_700_000_000_123_456);
        assert_eq!(instant.to_string().parse(), Ok(instant));
        assert_eq!(instant.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!(Timestamp::MAX.to_string().parse(), Ok(Timestamp::MAX));
    }

    #[test]
    fn an_instant_that_may_be_absent_takes_no_more_room() {
        assert_eq!(size_of::<Option<Timestamp>>(), 8);
    }

    #[test]
    fn a_delay_that_overflows_time_is_noticed() {
        assert_eq!(Timestamp::MIN.checked_add(Duration::MAX), None);
        assert_eq!(Timestamp::MAX.checked_add(Duration::from_micros(1)), None);
        assert_eq!(Timestamp::MIN.saturating_add(Duration::MAX), Timestamp::MAX);
    }

    #[test]
    fn text_that_is_no_instant_is_refused_with_an_example() {
        let refusal = "tomorrow".parse::<Timestamp>().unwrap_err().to_string();
        assert!(refusal.contains("`tomorrow`") && refusal.contains("2026-01-31T09:30:00Z"), "{refusal}");
    }
}
