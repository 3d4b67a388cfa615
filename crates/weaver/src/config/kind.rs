//! The kinds of settings and their checks.

use std::time::Duration;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not empty.
    Text,
    Choice(&'static [&'static str]),
    /// A duration, such as `30s` or `12h`.
    Span,
    /// A number in an inclusive range.
    Count(u32, u32),
    /// Comma-separated names.
    Names,
    /// May be empty.
    Optional,
    /// `true` or `false`.
    Switch,
    /// Never shown; may be empty.
    Secret,
}

impl Kind {
    /// The error says what is allowed.
    pub(crate) fn check(&self, value: &str) -> Result<(), String> {
        match self {
            Self::Text if value.is_empty() => Err("it must not be empty".to_owned()),
            Self::Text | Self::Optional | Self::Secret => Ok(()),
            Self::Switch if matches!(value, "true" | "false") => Ok(()),
            Self::Switch => Err("it must be true or false".to_owned()),
            Self::Choice(choices) if choices.contains(&value) => Ok(()),
            Self::Choice(choices) => Err(format!("it must be one of {}", choices.join(", "))),
            Self::Count(min, max) if value.parse().is_ok_and(|count| (*min..=*max).contains(&count)) => {
                Ok(())
            }
            Self::Count(min, max) => Err(format!("it must be a number from {min} to {max}")),
            Self::Names if value.split(',').all(|name| !name.trim().is_empty()) => Ok(()),
            Self::Names => Err("it must be one or more names, comma-separated".to_owned()),
            Self::Span if parse_span(value).is_some() => Ok(()),
            Self::Span => Err("it must be a number and a unit: 500ms, 30s, 5m, 12h or 30d".to_owned()),
        }
    }
}

/// A number and a unit: `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn parse_span(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let seconds = match unit {
        "ms" => return Some(Duration::from_millis(number)),
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        assert_eq!(parse_span("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_span("2h"), Some(Duration::from_secs(7200)));
        assert_eq!(parse_span("30d"), Some(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "5", "h", "5 m", "-1s", "1y", "99999999999999999999s", "9999999999999999999d"] {
            assert_eq!(parse_span(wrong), None, "{wrong}");
        }
    }
}
