//! Weaver's scheduler: job definitions, the fires that make runs of them, and events.
//!
//! ```text
//! calendar   pure: text and a zone in, instants out
//! misfire    pure: what becomes of fires that nobody was there for
//! definition what people write, checked when it is written; a document of kind `job_definition`
//! Scheduler  add, edit, … · emit · tick: due definitions and events become tasks · run: ticks until it is told to stop
//! settings   known keys in the store, changed at run time
//! ```
//!
//! Any number of nodes run it at once and none of them leads: what a fire becomes is decided by one
//! conditional write, and the run has a key made of its definition and instant, so that it is one task
//! however often it is enqueued. Nothing here asks what time it is: the clock is passed in.

pub mod calendar;
pub mod definition;
pub mod error;
pub mod event;
pub mod misfire;
mod readable;
mod run;
mod service;
pub mod settings;
mod tick;

pub use error::{InvalidField, SchedulerError};
pub use readable::check_body;
pub use service::{Options, Scheduler};
pub use tick::Ticked;
