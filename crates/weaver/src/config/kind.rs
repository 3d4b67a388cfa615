//! What values a setting takes.

use std::time::Duration;

/// The kind of a setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Anything but nothing.
    Text,
    /// One of these.
    Choice(&'static [&'static str]),
    /// A time span, such as `30s` or `12h`.
    Span,
    /// A number from one to another.
    Count(u32, u32),
    /// Names, separated by commas in text.
    Names,
    /// A text, or nothing.
    Optional,
    /// `true` or `false`.
    Switch,
    /// A text that must not be shown; may be nothing.
    Secret,
}

impl Kind {
    /// Says what is wrong with a value, and what would be right.
    pub(crate) fn check(&self, value: &str) -> Result<(), String> {
        match self {
            Self::Text if value.is_empty() => Err("it is empty".to_owned()),
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
            Self::Names => Err("it must be one name, or several separated by commas".to_owned()),
            Self::Span if parse_span(value).is_some() => Ok(()),
            Self::Span => Err("it must be a number and a unit: 500ms, 30s, 5m, 12h or 30d".to_owned()),
        }
    }
}

/// A number and a unit.
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
    fn spans_are_a_number_and_a_unit() {
        assert_eq!(parse_span("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_span("2h"), Some(Duration::from_secs(7200)));
        assert_eq!(parse_span("30d"), Some(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "5", "h", "5 m", "-1s", "1y", "99999999999999999999s", "9999999999999999999d"] {
            assert_eq!(parse_span(wrong), None, "{wrong}");
        }
    }
}
