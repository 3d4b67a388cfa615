//! Damage, row by row as in `docs/operating/embedded.md`: what a store does when its files are not what it
//! wrote, when the disk fails, and when it is full.

mod bed;
mod directory;
mod disk_full;
mod flips;
mod io_errors;
mod lengths;
mod processes;
#[path = "../support/mod.rs"]
mod support;
mod values;
