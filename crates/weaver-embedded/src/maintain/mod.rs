//! What operators do to a whole store: check it, copy it, make it smaller, write it out and read it in.

mod backup;
mod check;
mod compact;
mod export;
mod import;
mod line;

pub use check::CheckReport;
pub use export::Exported;
pub use import::Imported;
