//! One field of a cron expression: validated here, so that an error can point at it, and normalized for the
//! library that matches it.

use super::error::{BadSchedule, nearest};

/// The values of a field.
#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names for values, the first for `first`.
    names: &'static [&'static str],
    first: u32,
    days: Option<Days>,
}

/// The two fields with special syntax (`L`, `W`, `#`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Days {
    OfMonth,
    OfWeek,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The six fields in order, seconds first.
pub(super) const FIELDS: [Field; 6] = [
    Field { name: "second", min: 0, max: 59, names: &[], first: 0, days: None },
    Field { name: "minute", min: 0, max: 59, names: &[], first: 0, days: None },
    Field { name: "hour", min: 0, max: 23, names: &[], first: 0, days: None },
    Field { name: "day of month", min: 1, max: 31, names: &[], first: 0, days: Some(Days::OfMonth) },
    Field { name: "month", min: 1, max: 12, names: &MONTHS, first: 1, days: None },
    Field { name: "day of week", min: 0, max: 7, names: &WEEKDAYS, first: 0, days: Some(Days::OfWeek) },
];

#[derive(Debug)]
pub(super) struct Parsed {
    /// The field in numbers.
    pub(super) canonical: String,
    /// Whether it repeats: `*`, `*/n`, or the full range.
    pub(super) repeats: bool,
}

/// A part of the expression with its position.
#[derive(Clone, Copy)]
struct Place<'a> {
    whole: &'a str,
    start: usize,
    text: &'a str,
}

impl<'a> Place<'a> {
    fn part(self, text: &'a str) -> Self {
        Self { start: self.start + (text.as_ptr() as usize - self.text.as_ptr() as usize), text, ..self }
    }
}

impl Field {
    /// Parses the field, which starts at byte `start` of the whole expression.
    pub(super) fn parse(&self, whole: &str, start: usize, text: &str) -> Result<Parsed, BadSchedule> {
        let field = Place { whole, start, text };
        if text == "?" && self.days.is_some() {
            return Ok(Parsed { canonical: "*".to_owned(), repeats: true });
        }
        let mut items = Vec::new();
        let mut repeats = false;
        for item in text.split(',') {
            let place = field.part(item);
            if item.is_empty() {
                return Err(self.bad(field, "a list has an empty member", "remove the comma"));
            }
            repeats |= item.starts_with('*') || item == format!("{}-{}", self.min, self.max);
            items.push(self.item(place)?);
        }
        Ok(Parsed { canonical: items.join(","), repeats })
    }

    fn item(&self, place: Place<'_>) -> Result<String, BadSchedule> {
        if let Some(special) = self.special(place)? {
            return Ok(special);
        }
        let Some((base, step)) = place.text.split_once('/') else {
            return self.range(place);
        };
        let place_of_step = place.part(step);
        let steps = match step.parse::<u32>() {
            Ok(steps) if (1..=self.max).contains(&steps) => steps,
            _ => {
                let hint = format!("give a step from 1 to {}", self.max);
                return Err(self.bad(place_of_step, format!("`{step}` is not a step"), hint));
            }
        };
        if base != "*" && !base.contains('-') {
            let problem = format!("`{}` has a step but no range", place.text);
            let from = if base.is_empty() { "*".to_owned() } else { format!("{base}-{}", self.max) };
            return Err(self.bad(place, problem, format!("did you mean `{from}/{steps}`?")));
        }
        Ok(format!("{}/{steps}", self.range(place.part(base))?))
    }

    fn range(&self, place: Place<'_>) -> Result<String, BadSchedule> {
        if place.text == "*" {
            return Ok("*".to_owned());
        }
        let Some((from, to)) = place.text.split_once('-') else {
            return Ok(self.value(place)?.to_string());
        };
        let (low, mut high) = (self.value(place.part(from))?, self.value(place.part(to))?);
        if self.days == Some(Days::OfWeek) && high == 0 {
            high = 7;
        }
        if low > high {
            let hint = format!("write `{from}-{},{}-{to}`", self.max.min(self.top()), self.min);
            return Err(self.bad(place, format!("`{}` runs backwards", place.text), hint));
        }
        Ok(format!("{low}-{high}"))
    }

    /// The last distinct value: Saturday for weekdays, as 7 is Sunday again.
    fn top(&self) -> u32 {
        if self.days == Some(Days::OfWeek) { 6 } else { self.max }
    }

    fn value(&self, place: Place<'_>) -> Result<u32, BadSchedule> {
        let text = place.text;
        if let Ok(number) = text.parse::<u32>()
            && text.bytes().all(|byte| byte.is_ascii_digit())
        {
            if (self.min..=self.max).contains(&number) {
                return Ok(number);
            }
            let problem = format!("{number} is not between {} and {}", self.min, self.max);
            return Err(self.bad(place, problem, self.instead(number)));
        }
        let known = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(index) = known {
            return Ok(self.first + index as u32);
        }
        let hint = match nearest(text, self.names.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("give a number from {} to {}", self.min, self.max),
        };
        Err(self.bad(place, format!("`{text}` is not a {}", self.name), hint))
    }

    /// The likely correction of a number just outside the range.
    fn instead(&self, number: u32) -> String {
        match (self.name, number) {
            ("hour", 24) => "midnight is 0, at the beginning of the day".to_owned(),
            ("minute" | "second", 60) => format!("the full {} is 0", self.larger()),
            ("month" | "day of month", 0) => format!("the first {} is 1", self.name),
            _ => format!("give a number from {} to {}", self.min, self.max),
        }
    }

    fn larger(&self) -> &'static str {
        if self.name == "second" { "minute" } else { "hour" }
    }

    /// `L`, `LW`, `15W` of a month; `FRI#2`, `5L` of a week.
    fn special(&self, place: Place<'_>) -> Result<Option<String>, BadSchedule> {
        let upper = place.text.to_ascii_uppercase();
        match self.days {
            Some(Days::OfMonth) if upper == "L" || upper == "LW" => Ok(Some(upper)),
            Some(Days::OfMonth) => match upper.strip_suffix('W') {
                Some(day) => {
                    let day = self.value(place.part(&place.text[..day.len()]))?;
                    Ok(Some(format!("{day}W")))
                }
                None => Ok(None),
            },
            Some(Days::OfWeek) => {
                if let Some((day, which)) = place.text.split_once('#') {
                    let value = self.value(place.part(day))? % 7;
                    if !matches!(which, "1" | "2" | "3" | "4" | "5") {
                        let problem = format!("`#{which}` is no week of a month");
                        let hint = "give #1 to #5, or `L` after the day for the last";
                        return Err(self.bad(place.part(which), problem, hint));
                    }
                    return Ok(Some(format!("{value}#{which}")));
                }
                match upper.strip_suffix('L').filter(|day| !day.is_empty()) {
                    Some(day) => {
                        let value = self.value(place.part(&place.text[..day.len()]))? % 7;
                        Ok(Some(format!("{value}L")))
                    }
                    None => Ok(None),
                }
            }
            None => Ok(None),
        }
    }

    fn bad(&self, place: Place<'_>, problem: impl Into<String>, hint: impl Into<String>) -> BadSchedule {
        BadSchedule {
            field: "schedule",
            part: Some(self.name),
            text: place.whole.to_owned(),
            at: place.start..place.start + place.text.len(),
            problem: problem.into(),
            hint: hint.into(),
        }
    }
}
