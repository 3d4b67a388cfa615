//! Spans of elapsed time: `5m`, `1h30m`.

use std::time::Duration;

/// The longest interval: beyond a year a cron expression is meant.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses a span of whole seconds; the error is a message.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let mut seconds: u64 = 0;
    let mut digits = String::new();
    for character in text.chars().filter(|character| !character.is_whitespace()) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let unit: u64 = match character.to_ascii_lowercase() {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 24 * 3600,
            _ => return Err(format!("`{character}` is not a unit of time")),
        };
        let count: u64 = digits.parse().map_err(|_| format!("`{character}` needs a number before it"))?;
        digits.clear();
        seconds = count.checked_mul(unit).and_then(|more| seconds.checked_add(more)).unwrap_or(u64::MAX);
    }
    if !digits.is_empty() {
        return Err(format!("`{digits}` needs a unit"));
    }
    match Duration::from_secs(seconds) {
        Duration::ZERO => Err("the interval is empty".to_owned()),
        span if span > SPAN_MAX => Err("the interval is longer than 366 days".to_owned()),
        span => Ok(span),
    }
}
