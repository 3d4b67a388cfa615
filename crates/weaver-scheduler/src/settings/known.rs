//! The settings there are.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::Setting;
use crate::error::{InvalidField, Result, SchedulerError};

/// A setting that exists.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub key: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// What can be set.
    pub accepts: ValueType,
}

/// The values a setting can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// `true` or `false`.
    Switch {
        /// If nothing is set.
        default: bool,
    },
    /// A whole number.
    Number {
        /// At least.
        min: u64,
        /// At most.
        max: u64,
        /// If nothing is set.
        default: u64,
    },
}

impl fmt::Display for ValueType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch { .. } => out.write_str("true or false"),
            Self::Number { min, max, .. } => write!(out, "a whole number between {min} and {max}"),
        }
    }
}

const PAUSED: &str = "scheduler.paused";
const POLL: &str = "scheduler.poll_interval_ms";
const BATCH: &str = "scheduler.batch_max";
const EVENTS: &str = "events.retention_hours";
const NOTICES: &str = "scheduler.notices_retention_days";

/// Every setting, by name.
pub const KNOWN: &[Known] = &[
    Known {
        key: EVENTS,
        about: "how long processed events are kept; a dedupe key can be used again after that",
        accepts: ValueType::Number { min: 1, max: 8760, default: 168 },
    },
    Known {
        key: BATCH,
        about: "how many due schedules or events one tick takes",
        accepts: ValueType::Number { min: 1, max: 1000, default: 1000 },
    },
    Known {
        key: NOTICES,
        about: "how long the log of skipped and merged fires is kept",
        accepts: ValueType::Number { min: 1, max: 3650, default: 30 },
    },
    Known {
        key: PAUSED,
        about: "no schedule fires and no event is processed, anywhere; missed fires are handled by their policy afterwards",
        accepts: ValueType::Switch { default: false },
    },
    Known {
        key: POLL,
        about: "how often each node looks for changes that other nodes made",
        accepts: ValueType::Number { min: 50, max: 60_000, default: 1000 },
    },
];

impl Known {
    /// What holds if nothing is set.
    pub fn default(&self) -> Value {
        match self.accepts {
            ValueType::Switch { default } => json!(default),
            ValueType::Number { default, .. } => json!(default),
        }
    }

    /// Refuses a value this setting cannot have.
    pub fn check(&self, value: &Value) -> Result<()> {
        let is_fine = match self.accepts {
            ValueType::Switch { .. } => value.is_boolean(),
            ValueType::Number { min, max, .. } => {
                value.as_u64().is_some_and(|number| (min..=max).contains(&number))
            }
        };
        if is_fine {
            return Ok(());
        }
        Err(InvalidField::error(
            self.key,
            format!("`{value}` cannot be set"),
            format!("give {}", self.accepts),
        ))
    }
}

/// The values that hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// `scheduler.paused`.
    pub paused: bool,
    /// `scheduler.poll_interval_ms`.
    pub poll_interval: Duration,
    /// `scheduler.batch_max`.
    pub batch_max: u32,
    /// `events.retention_hours`.
    pub events_retention: Duration,
    /// `scheduler.notices_retention_days`.
    pub notices_retention: Duration,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::of(&[])
    }
}

impl Snapshot {
    pub(super) fn of(settings: &[Setting]) -> Self {
        let value = |key: &str| {
            let set = settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.clone());
            let known = || KNOWN.iter().find(|known| known.key == key).map(Known::default);
            set.or_else(known).unwrap_or_default()
        };
        let number = |key| value(key).as_u64().unwrap_or_default();
        Self {
            paused: value(PAUSED).as_bool().unwrap_or_default(),
            poll_interval: Duration::from_millis(number(POLL)),
            batch_max: u32::try_from(number(BATCH)).unwrap_or(1),
            events_retention: Duration::from_secs(number(EVENTS) * 3600),
            notices_retention: Duration::from_secs(number(NOTICES) * 24 * 3600),
        }
    }
}

pub(super) fn find(key: &str) -> Result<&'static Known> {
    KNOWN.iter().find(|known| known.key == key).ok_or_else(|| unknown(key))
}

pub(super) fn unknown(key: &str) -> SchedulerError {
    let nearest = KNOWN
        .iter()
        .map(|known| (strsim::jaro_winkler(key, known.key), known.key))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let hint = match nearest {
        Some((_, meant)) => format!("did you mean `{meant}`?"),
        None => {
            let keys: Vec<&str> = KNOWN.iter().map(|known| known.key).collect();
            format!("there are {}", keys.join(", "))
        }
    };
    SchedulerError::UnknownSetting { key: key.to_owned(), hint }
}
