//! A schedule, checked; and its fires.

use std::fmt;
use std::time::Duration;

use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::cron::Pattern;
use super::error::BadSchedule;
use super::expression::{self, Expression};
use super::walk::Walk;
use super::zone::Zone;

/// A schedule as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// `every 5m`, `daily at 02:30`, `once at 2026-03-29T02:30`, or a cron expression of five fields, or six
    /// with seconds first.
    pub schedule: String,
    /// The IANA name of the time zone. Needed wherever times of day are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// What happens to a time that a clock set forward leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// What happens to a time that a clock set back shows twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
}

impl ScheduleSpec {
    /// A schedule without a zone.
    pub fn new(schedule: impl Into<String>) -> Self {
        Self { schedule: schedule.into(), tz: None, gap: None, overlap: None }
    }

    /// In this zone.
    #[must_use]
    pub fn tz(self, name: impl Into<String>) -> Self {
        Self { tz: Some(name.into()), ..self }
    }

    /// With this rule for gaps.
    #[must_use]
    pub fn gap(self, gap: Gap) -> Self {
        Self { gap: Some(gap), ..self }
    }

    /// With this rule for overlaps.
    #[must_use]
    pub fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap: Some(overlap), ..self }
    }
}

/// What happens to a time that a clock set forward leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// It fires at the end of the gap. Several times in one gap fire there once. The default for times of
    /// day.
    Shift,
    /// It does not fire. The default for intervals (`0 * * * *`, `*/30 * * * *`), which cannot have the
    /// other.
    Skip,
}

/// What happens to a time that a clock set back shows twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It fires when it is shown first. The default for times of day.
    First,
    /// It fires when it is shown for the second time.
    Last,
    /// It fires both times. The default for intervals.
    Both,
}

/// A fire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// When.
    pub at: Timestamp,
    /// What the clocks have to do with it.
    pub notes: Vec<Note>,
}

/// What a change of the clocks has to do with a fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// It stands for a time that does not exist.
    Shifted {
        /// That time.
        wanted: DateTime,
    },
    /// Before it, a time that does not exist was passed over.
    Skipped {
        /// That time.
        wanted: DateTime,
    },
    /// Its time is shown twice, and this is the first.
    FirstPass {
        /// That time.
        civil: DateTime,
    },
    /// Its time is shown twice, and this is the second.
    SecondPass {
        /// That time.
        civil: DateTime,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (civil, text) = match self {
            Self::Shifted { wanted } => (wanted, "does not exist on DATE: moved to the end of the gap"),
            Self::Skipped { wanted } => (wanted, "does not exist on DATE: passed over before this one"),
            Self::FirstPass { civil } => (civil, "happens twice on DATE: this is the first"),
            Self::SecondPass { civil } => (civil, "happens twice on DATE: this is the second"),
        };
        let time = civil.strftime(if civil.second() == 0 { "%H:%M" } else { "%H:%M:%S" });
        write!(out, "{time} {}", text.replace("DATE", &civil.date().to_string()))
    }
}

/// A schedule that was understood.
#[derive(Debug, Clone)]
pub struct Schedule {
    spec: ScheduleSpec,
    when: When,
    zone: Option<Zone>,
}

#[derive(Debug, Clone)]
enum When {
    Civil { pattern: Pattern, zone: Zone, gap: Gap, overlap: Overlap },
    Every(Duration),
    Instant(Timestamp),
}

impl Schedule {
    /// Checks a schedule.
    pub fn new(spec: ScheduleSpec) -> Result<Self, BadSchedule> {
        let zone = spec.tz.as_deref().map(Zone::named).transpose()?;
        let when = match expression::parse(&spec.schedule)? {
            Expression::Civil(cron) => {
                let zone = zone.clone().ok_or_else(|| needs_zone(&spec))?;
                if cron.is_interval && spec.gap == Some(Gap::Shift) {
                    return Err(BadSchedule::whole(
                        "gap",
                        "shift",
                        "an interval has nothing to move when the clock goes forward",
                        "leave `gap` out, or name times of day",
                    ));
                }
                let (gap, overlap) =
                    if cron.is_interval { (Gap::Skip, Overlap::Both) } else { (Gap::Shift, Overlap::First) };
                When::Civil {
                    pattern: cron.pattern,
                    zone,
                    gap: spec.gap.unwrap_or(gap),
                    overlap: spec.overlap.unwrap_or(overlap),
                }
            }
            other => {
                if spec.gap.is_some() || spec.overlap.is_some() {
                    let field = if spec.gap.is_some() { "gap" } else { "overlap" };
                    let problem = "elapsed time and instants know no gaps and overlaps";
                    return Err(BadSchedule::whole(field, &spec.schedule, problem, "leave it out"));
                }
                match other {
                    Expression::Every(span) => When::Every(span),
                    Expression::Instant(at) => When::Instant(at),
                    Expression::Civil(_) => unreachable!("matched above"),
                }
            }
        };
        Ok(Self { spec, when, zone })
    }

    /// As it was written.
    pub fn spec(&self) -> &ScheduleSpec {
        &self.spec
    }

    /// Its zone, if it has one.
    pub fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    /// What it says, in words, without its zone.
    pub fn words(&self) -> String {
        match &self.when {
            When::Every(span) => format!("Every {}", span_words(*span)),
            When::Instant(at) => format!("Once, at {at}"),
            When::Civil { pattern, .. } => pattern.words(),
        }
    }

    /// The first fire after an instant, if there is another.
    pub fn next_after(&self, after: Timestamp) -> Option<Fire> {
        match &self.when {
            When::Instant(at) => (*at > after).then_some(Fire { at: *at, notes: Vec::new() }),
            When::Every(span) => {
                // Multiples of the span since 1970: the same on every node, whenever it was started.
                let micros = i64::try_from(span.as_micros()).ok()?;
                let next = (after.as_micros() / micros).checked_add(1)?.checked_mul(micros)?;
                let at = Timestamp::from_micros(next);
                (at > after).then_some(Fire { at, notes: Vec::new() })
            }
            When::Civil { pattern, zone, gap, overlap } => {
                let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?;
                let walk = Walk { pattern, zone: zone.inner(), gap: *gap, overlap: *overlap };
                let (at, notes) = walk.next(after)?;
                Some(Fire { at: Timestamp::from_micros(at.as_microsecond()), notes })
            }
        }
    }

    /// The next fires after an instant, at most so many.
    pub fn next(&self, after: Timestamp, count: usize) -> Vec<Fire> {
        let mut fires: Vec<Fire> = Vec::new();
        let mut after = after;
        while fires.len() < count {
            let Some(fire) = self.next_after(after) else { break };
            after = fire.at;
            fires.push(fire);
        }
        fires
    }
}

/// A span in whole units: "5 minutes", "hour and 30 minutes".
fn span_words(span: Duration) -> String {
    let units = [("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)];
    let mut rest = span.as_secs();
    let mut parts = Vec::new();
    for (unit, seconds) in units {
        let count = rest / seconds;
        rest %= seconds;
        match count {
            0 => {}
            // "Every minute", but "every hour and 1 minute".
            1 if parts.is_empty() => parts.push(unit.to_owned()),
            1 => parts.push(format!("1 {unit}")),
            count => parts.push(format!("{count} {unit}s")),
        }
    }
    parts.join(" and ")
}

fn needs_zone(spec: &ScheduleSpec) -> BadSchedule {
    BadSchedule::whole(
        "tz",
        &spec.schedule,
        format!("`{}` names times of day, and no time zone says where", spec.schedule.trim()),
        "give one, like Europe/Berlin, or UTC",
    )
}
