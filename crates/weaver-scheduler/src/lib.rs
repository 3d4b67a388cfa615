//! Weaver's scheduler.
//!
//! [`calendar`] is pure: a schedule as data, and the instants it means. Nothing in it asks what time it is or where it
//! runs, so any number of nodes compute the same fires.

pub mod calendar;
