//! The calendar: named cases, and random ones against a calendar that scans every half minute.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

mod brute;
mod days;
mod description;
mod errors;
mod fuzz;
mod named;
mod random;
