//! The known settings.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::Setting;
use crate::error::{InvalidField, Result, SchedulerError};

/// The specification of a setting.
#[derive(Debug)]
pub struct Known {
    /// Its dotted name, like `scheduler.batch_max`.
    pub key: &'static str,
    /// One sentence for people, without a final stop.
    pub description: &'static str,
    /// The values it can have, with the default.
    pub allowed: ValueType,
}

/// The allowed values of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// A boolean, shown as `true or false`.
    Switch {
        /// The value if none is set.
        default: bool,
    },
    /// A whole number in a range.
    Number {
        /// The smallest allowed value.
        min: u64,
        /// The largest allowed value.
        max: u64,
        /// The value if none is set.
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
        description: "how long processed events are kept; a dedupe key can be used again after that",
        allowed: ValueType::Number { min: 1, max: 8760, default: 168 },
    },
    Known {
        key: BATCH,
        description: "how many due schedules or events one tick handles",
        allowed: ValueType::Number { min: 1, max: 1000, default: 1000 },
    },
    Known {
        key: NOTICES,
        description: "how long notices of skipped and merged runs are kept",
        allowed: ValueType::Number { min: 1, max: 3650, default: 30 },
    },
    Known {
        key: PAUSED,
        description: "whether schedules and events are paused on every node; misfire policies apply afterwards",
        allowed: ValueType::Switch { default: false },
    },
    Known {
        key: POLL,
        description: "how often each node polls for changes made by other nodes",
        allowed: ValueType::Number { min: 50, max: 60_000, default: 1000 },
    },
];

impl Known {
    /// The value if none is set, as JSON.
    pub fn default(&self) -> Value {
        match self.allowed {
            ValueType::Switch { default } => json!(default),
            ValueType::Number { default, .. } => json!(default),
        }
    }

    /// Refuses a value that is not allowed, with [`SchedulerError::Invalid`].
    pub fn check(&self, value: &Value) -> Result<()> {
        let is_fine = match self.allowed {
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
            format!("`{value}` is not allowed"),
            format!("give {}", self.allowed),
        ))
    }
}

/// The effective values of all settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The value of `scheduler.paused`; default false.
    pub paused: bool,
    /// `scheduler.poll_interval_ms`; default 1 s.
    pub poll_interval: Duration,
    /// The value of `scheduler.batch_max`; default 1000.
    pub batch_max: u32,
    /// `events.retention_hours`; default 7 days.
    pub events_retention: Duration,
    /// `scheduler.notices_retention_days`; default 30 days.
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
            format!("known settings are {}", keys.join(", "))
        }
    };
    SchedulerError::UnknownSetting { key: key.to_owned(), hint }
}
