//! Time zones from the bundled IANA database.

use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::{BadSchedule, nearest};
use weaver_core::time::Timestamp;

/// A time zone of the IANA database.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of this IANA name, independent of the machine's own database.
    pub fn named(name: &str) -> Result<Self, BadSchedule> {
        let database = TimeZoneDatabase::bundled();
        if let Ok(zone) = database.get(name) {
            return Ok(Self(zone));
        }
        let names: Vec<String> = database.available().map(|known| known.as_str().to_owned()).collect();
        let city = name.rsplit('/').next().unwrap_or(name).replace(' ', "_");
        let same_city = names.iter().find(|known| {
            known.rsplit('/').next().is_some_and(|known_city| known_city.eq_ignore_ascii_case(&city))
        });
        let meant = same_city.map(String::as_str).or_else(|| nearest(name, names.iter().map(String::as_str)));
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "give a name of the IANA database, like Europe/Berlin or UTC".to_owned(),
        };
        Err(BadSchedule::whole("tz", name, format!("unknown time zone `{name}`"), hint))
    }

    /// The system's zone, for output; UTC if it is unknown.
    pub fn system() -> Self {
        Self(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// The IANA name; `local` for a system zone without one.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("local")
    }

    /// An instant in this zone: `2026-03-29 03:00:00 +02:00`.
    pub fn show(&self, instant: Timestamp) -> String {
        match jiff::Timestamp::from_microsecond(instant.as_micros()) {
            Ok(instant) => instant.to_zoned(self.0.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
            Err(_) => instant.to_string(),
        }
    }

    pub(super) fn inner(&self) -> &TimeZone {
        &self.0
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
