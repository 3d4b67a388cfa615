//! The calendar: named cases, and every case against a calendar that looks at each half minute.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

mod brute;
mod days;
mod errors;
mod fuzz;
mod named;
mod random;
mod words;
