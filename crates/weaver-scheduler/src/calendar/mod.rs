//! Schedules as data, and the instants at which they fire.
//!
//! A schedule is a line of text and a time zone. In a DST gap, where clocks are set forward, some times of
//! day do not exist; in a DST fold, where they are set back, some exist twice. [`Gap`] and [`Fold`] decide
//! what happens then, and every affected [`Fire`] has a note.
//!
//! ```
//! use weaver_scheduler::calendar::{Schedule, ScheduleSpec};
//!
//! let nightly = Schedule::new(ScheduleSpec::new("daily at 02:30").tz("Europe/Berlin"))?;
//! let fires = nightly.next("2026-03-28T00:00:00Z".parse()?, 2);
//! assert_eq!(fires[0].at.to_string(), "2026-03-28T01:30:00.000000Z");
//! // On the 29th the clock goes from 02:00 to 03:00: there is no half past two.
//! assert_eq!(fires[1].at.to_string(), "2026-03-29T01:00:00.000000Z");
//! assert_eq!(fires[1].notes[0].to_string(), "02:30 does not exist on 2026-03-29: moved to the end of the gap");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cron;
mod error;
mod expression;
mod field;
mod schedule;
mod span;
mod walk;
mod zone;

pub use error::BadSchedule;
pub use schedule::{Fire, Fold, Gap, Note, Schedule, ScheduleSpec};
pub use zone::Zone;
