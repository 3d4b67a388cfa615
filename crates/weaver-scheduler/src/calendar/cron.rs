//! Cron expressions on civil time: dates and times of day without a zone.

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;

use super::error::{BadSchedule, nearest};
use super::field::{FIELDS, Parsed};

/// A set of civil times.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    Cron(Box<croner::Cron>),
    Once(DateTime),
}

impl Pattern {
    /// The first match at or after a civil time.
    pub(super) fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        match self {
            // Its only error is that nothing matches before the year 5000.
            Self::Cron(cron) => cron.find_next_occurrence(&from, true).ok(),
            Self::Once(at) => (*at >= from).then_some(*at),
        }
    }

    /// A description for people who do not read cron.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Cron(cron) => polished(&cron.describe()),
            Self::Once(at) => format!("Once, at {}", at.strftime("%Y-%m-%d %H:%M:%S")),
        }
    }
}

/// A parsed cron expression.
#[derive(Debug, Clone)]
pub(super) struct CronText {
    pub(super) pattern: Pattern,
    /// Whether it repeats within the day (`0 * * * *`, `*/30 * * * *`) rather than naming times of day.
    pub(super) is_interval: bool,
}

const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Reads five fields, or six with seconds first.
pub(super) fn parse(text: &str) -> Result<CronText, BadSchedule> {
    if text.trim_start().starts_with('@') {
        let word = text.trim().to_ascii_lowercase();
        return match NICKNAMES.iter().find(|(name, _)| *name == word) {
            Some((_, expression)) => parse(expression),
            None => {
                let meant = nearest(&word, NICKNAMES.iter().map(|(name, _)| *name)).unwrap_or("@daily");
                let problem = format!("unknown nickname `{}`", text.trim());
                Err(BadSchedule::whole("schedule", text, problem, format!("did you mean `{meant}`?")))
            }
        };
    }
    let words = words(text);
    let first = match words.len() {
        5 => 1,
        6 => 0,
        count => {
            let problem = format!("{count} fields are neither 5 nor 6");
            let hint =
                "write `minute hour day-of-month month day-of-week`, with seconds first if there are six";
            return Err(BadSchedule::whole("schedule", text, problem, hint));
        }
    };
    let mut fields = Vec::with_capacity(6);
    for (kind, (start, word)) in FIELDS[first..].iter().zip(&words) {
        fields.push(kind.parse(text, *start, word)?);
    }
    if first == 1 {
        fields.insert(0, Parsed { canonical: "0".to_owned(), repeats: false });
    }
    let canonical: Vec<&str> = fields.iter().map(|field| field.canonical.as_str()).collect();
    let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
    let cron = parser.parse(&canonical.join(" ")).map_err(|error| {
        BadSchedule::whole("schedule", text, error.to_string(), "see docs/guides/schedules.md for the syntax")
    })?;
    let pattern = Pattern::Cron(Box::new(cron));
    // A leap day on a given weekday recurs within 40 years: a pattern without a match by the year 5000 has
    // none.
    if pattern.at_or_after(jiff::civil::date(2000, 1, 1).at(0, 0, 0, 0)).is_none() {
        let (start, end) = (words[words.len() - 3].0, words[words.len() - 2]);
        let mut bad = BadSchedule::whole(
            "schedule",
            text,
            "no month has such a day, so it never fires",
            "change the day of month or the month; `L` is the last day of each month",
        );
        (bad.at, bad.part) = (start..end.0 + end.1.len(), Some("day of month"));
        return Err(bad);
    }
    let is_interval = fields[..3].iter().any(|field| field.repeats);
    Ok(CronText { pattern, is_interval })
}

/// The library's description in plainer English.
fn polished(said: &str) -> String {
    let said = said.trim_end_matches('.');
    let said = said.replace("Monday, Tuesday, Wednesday, Thursday, and Friday", "Monday to Friday");
    match said.strip_prefix("At ") {
        Some(rest) if rest.starts_with("every ") => format!("E{}", &rest[1..]),
        Some(time) if time.chars().all(|c| c.is_ascii_digit() || c == ':') => format!("Every day at {time}"),
        _ => said,
    }
}

/// The words of a text, each with its byte offset.
fn words(text: &str) -> Vec<(usize, &str)> {
    let base = text.as_ptr() as usize;
    text.split_whitespace().map(|word| (word.as_ptr() as usize - base, word)).collect()
}
