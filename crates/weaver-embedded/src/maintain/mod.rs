//! Maintenance of a whole store: check, backup, compact, export, import.

mod backup;
mod check;
mod compact;
mod export;
mod import;
mod line;

pub use check::CheckReport;
pub use export::Exported;
pub use import::Imported;
