//! The text of a schedule.

use std::time::Duration;

use jiff::civil::{DateTime, Time};

use super::cron::{self, CronText, Pattern};
use super::error::{BadSchedule, nearest};
use super::span;
use weaver_core::time::Timestamp;

/// A parsed schedule text.
#[derive(Debug, Clone)]
pub(super) enum Expression {
    /// Civil times, which need a zone.
    Civil(CronText),
    /// Elapsed time, which needs no zone.
    Every(Duration),
    Instant(Timestamp),
}

/// Reads `every 5m`, `daily at 02:30`, `once at 2026-03-29T02:30`, or a cron expression.
pub(super) fn parse(text: &str) -> Result<Expression, BadSchedule> {
    let line = text.trim();
    let lower = line.to_ascii_lowercase();
    if let Some(rest) = after(line, &lower, "every") {
        return span::parse(rest).map(Expression::Every).map_err(|problem| {
            bad(text, rest, "interval", problem, "write a number and s, m, h or d, like `every 5m`")
        });
    }
    if let Some(rest) = after(line, &lower, "daily at") {
        let time: Time = civil_time(rest).ok_or_else(|| {
            let problem = format!("`{rest}` is not a time of day");
            bad(text, rest, "time of day", problem, "write hours and minutes, like `daily at 02:30`")
        })?;
        let expression = format!("{} {} {} * * *", time.second(), time.minute(), time.hour());
        return cron::parse(&expression).map(Expression::Civil);
    }
    if let Some(rest) = after(line, &lower, "once at") {
        return once(text, rest);
    }
    let word: String = lower.chars().take_while(char::is_ascii_alphabetic).collect();
    if word.len() > 1 && (lower.len() == word.len() || lower[word.len()..].starts_with(' ')) {
        let known = ["every 5m", "daily at 02:30", "once at 2026-03-29T02:30"];
        let meant = nearest(&word, ["every", "daily", "once"].into_iter());
        let example = known.iter().find(|example| meant.is_some_and(|meant| example.starts_with(meant)));
        let hint = match example {
            Some(example) => format!("did you mean `{example}`?"),
            None => "write `every 5m`, `daily at 02:30`, `once at …` or a cron expression".to_owned(),
        };
        let problem = format!("`{line}` is not a schedule");
        return Err(bad(text, &line[..word.len()], "schedule", problem, hint));
    }
    cron::parse(text).map(Expression::Civil)
}

/// The rest of the line after a keyword.
fn after<'a>(line: &'a str, lower: &str, keyword: &str) -> Option<&'a str> {
    let rest = lower.strip_prefix(keyword)?;
    rest.starts_with(' ').then(|| line[keyword.len()..].trim())
}

fn once(text: &str, rest: &str) -> Result<Expression, BadSchedule> {
    if let Ok(instant) = rest.parse::<Timestamp>() {
        return Ok(Expression::Instant(instant));
    }
    match rest.parse::<DateTime>() {
        Ok(at) if at.subsec_nanosecond() == 0 => {
            Ok(Expression::Civil(CronText { pattern: Pattern::Once(at), is_interval: false }))
        }
        _ => {
            let problem = format!("`{rest}` is not a time");
            let hint = "write `once at 2026-03-29T02:30`, in the time zone, or an instant that ends in Z";
            Err(bad(text, rest, "time", problem, hint))
        }
    }
}

/// `2:30`, `02:30` or `02:30:15`.
fn civil_time(text: &str) -> Option<Time> {
    let mut parts = text.split(':').map(|part| {
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse::<i8>().ok() } else { None }
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, 0).ok()
}

fn bad(
    text: &str,
    wrong: &str,
    part: &'static str,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> BadSchedule {
    let start = (wrong.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    BadSchedule {
        field: "schedule",
        part: Some(part),
        text: text.to_owned(),
        at: start..start + wrong.len(),
        problem: problem.into(),
        hint: hint.into(),
    }
}
