//! A parsed schedule and its fires.

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
    /// The IANA name of the time zone. Required if the schedule names times of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// The rule for a time in a DST gap; default by kind of schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// The rule for a time in a DST fold; default by kind of schedule. Stored as `overlap`.
    #[serde(rename = "overlap", default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
}

impl ScheduleSpec {
    /// A schedule without a time zone, and with the default rules for gaps and folds.
    pub fn new(schedule: impl Into<String>) -> Self {
        Self { schedule: schedule.into(), tz: None, gap: None, fold: None }
    }

    /// Sets the time zone by its IANA name.
    #[must_use]
    pub fn tz(self, name: impl Into<String>) -> Self {
        Self { tz: Some(name.into()), ..self }
    }

    /// Sets the rule for DST gaps.
    #[must_use]
    pub fn gap(self, gap: Gap) -> Self {
        Self { gap: Some(gap), ..self }
    }

    /// Sets the rule for DST folds.
    #[must_use]
    pub fn fold(self, fold: Fold) -> Self {
        Self { fold: Some(fold), ..self }
    }
}

/// The rule for a time in a DST gap, which does not exist because the clock was set forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// It fires at the end of the gap; several times in one gap fire once. The default for times of day.
    Shift,
    /// It does not fire. The default for intervals (`0 * * * *`, `*/30 * * * *`), which cannot shift.
    Skip,
}

/// The rule for a time in a DST fold, which exists twice because the clock was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// It fires the first time. The default for times of day.
    First,
    /// It fires the second time.
    Last,
    /// It fires both times. The default for intervals.
    Both,
}

/// One fire of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// In UTC; a whole second, unless the schedule names an instant.
    pub at: Timestamp,
    /// Effects of DST changes; usually empty.
    pub notes: Vec<Note>,
}

/// The effect of a DST change on a fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// Moved out of a gap.
    Shifted {
        /// The civil time that does not exist.
        wanted: DateTime,
    },
    /// Before it, a time in a gap was skipped.
    Skipped {
        /// The civil time that does not exist.
        wanted: DateTime,
    },
    /// The first of the two times in a fold.
    FirstPass {
        /// The civil time that exists twice.
        civil: DateTime,
    },
    /// The second of the two times in a fold.
    SecondPass {
        /// The civil time that exists twice.
        civil: DateTime,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (civil, text) = match self {
            Self::Shifted { wanted } => (wanted, "does not exist on DATE: moved to the end of the gap"),
            Self::Skipped { wanted } => (wanted, "does not exist on DATE: skipped before this one"),
            Self::FirstPass { civil } => (civil, "happens twice on DATE: this is the first"),
            Self::SecondPass { civil } => (civil, "happens twice on DATE: this is the second"),
        };
        let time = civil.strftime(if civil.second() == 0 { "%H:%M" } else { "%H:%M:%S" });
        write!(out, "{time} {}", text.replace("DATE", &civil.date().to_string()))
    }
}

/// A parsed schedule, which can compute its fires.
#[derive(Debug, Clone)]
pub struct Schedule {
    spec: ScheduleSpec,
    when: When,
    zone: Option<Zone>,
}

#[derive(Debug, Clone)]
enum When {
    Civil { pattern: Pattern, zone: Zone, gap: Gap, fold: Fold },
    Every(Duration),
    Instant(Timestamp),
}

impl Schedule {
    /// Parses and validates a specification; the error points at the wrong part.
    pub fn new(spec: ScheduleSpec) -> Result<Self, BadSchedule> {
        let zone = spec.tz.as_deref().map(Zone::named).transpose()?;
        let when = match expression::parse(&spec.schedule)? {
            Expression::Civil(cron) => {
                let zone = zone.clone().ok_or_else(|| needs_zone(&spec))?;
                if cron.is_interval && spec.gap == Some(Gap::Shift) {
                    return Err(BadSchedule::whole(
                        "gap",
                        "shift",
                        "an interval cannot be shifted out of a DST gap",
                        "omit `gap`, or name times of day",
                    ));
                }
                let (gap, fold) =
                    if cron.is_interval { (Gap::Skip, Fold::Both) } else { (Gap::Shift, Fold::First) };
                When::Civil {
                    pattern: cron.pattern,
                    zone,
                    gap: spec.gap.unwrap_or(gap),
                    fold: spec.fold.unwrap_or(fold),
                }
            }
            other => {
                if spec.gap.is_some() || spec.fold.is_some() {
                    let field = if spec.gap.is_some() { "gap" } else { "fold" };
                    let problem = "elapsed time and instants have no DST gap or fold";
                    return Err(BadSchedule::whole(field, &spec.schedule, problem, "omit it"));
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

    /// The specification it was parsed from.
    pub fn spec(&self) -> &ScheduleSpec {
        &self.spec
    }

    /// The time zone; `None` for elapsed time and instants without one.
    pub fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    /// A description for people, without the time zone: `Every day at 02:30`.
    pub fn describe(&self) -> String {
        match &self.when {
            When::Every(span) => format!("Every {}", span_words(*span)),
            When::Instant(at) => format!("Once, at {at}"),
            When::Civil { pattern, .. } => pattern.describe(),
        }
    }

    /// The first fire after an instant; `None`: there is no other.
    pub fn next_after(&self, after: Timestamp) -> Option<Fire> {
        match &self.when {
            When::Instant(at) => (*at > after).then_some(Fire { at: *at, notes: Vec::new() }),
            When::Every(span) => {
                // Multiples of the span since 1970, so that all nodes agree.
                let micros = i64::try_from(span.as_micros()).ok()?;
                let next = (after.as_micros() / micros).checked_add(1)?.checked_mul(micros)?;
                let at = Timestamp::from_micros(next);
                (at > after).then_some(Fire { at, notes: Vec::new() })
            }
            When::Civil { pattern, zone, gap, fold } => {
                let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?;
                let walk = Walk { pattern, zone: zone.inner(), gap: *gap, fold: *fold };
                let (at, notes) = walk.next(after)?;
                Some(Fire { at: Timestamp::from_micros(at.as_microsecond()), notes })
            }
        }
    }

    /// At most `count` fires after an instant.
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
        format!("`{}` names times of day, which need a time zone", spec.schedule.trim()),
        "give one, like Europe/Berlin, or UTC",
    )
}
