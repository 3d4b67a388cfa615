//! Weaver's scheduler.
//!
//! [`calendar`] is pure: a schedule as data, and the instants it means. Nothing in it asks what time it is or where it
//! runs, so any number of nodes compute the same fires. [`misfire`] decides, as purely, what becomes of fires that nobody was
//! there for. Job definitions, the ticks that fire them, and events build on these two and are not here yet.

pub mod calendar;
pub mod misfire;
