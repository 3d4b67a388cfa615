//! Damage, row by row as in `docs/operating/embedded.md`: damaged files, a failing disk, a full disk.

mod directory;
mod disk_full;
mod flips;
mod harness;
mod io_errors;
mod lengths;
mod processes;
#[path = "../support/mod.rs"]
mod support;
mod values;
