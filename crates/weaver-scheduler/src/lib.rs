//! Weaver's scheduler: cron and event schedules, and the tasks they create.
//!
//! ```text
//! calendar   pure: a cron expression and a time zone in, instants out
//! misfire    pure: which missed runs are caught up on
//! definition a schedule as people write it, validated on write; a document of kind `job_definition`
//! Scheduler  add, edit, … · emit · tick: due schedules and events become tasks · run: ticks until stopped
//! settings   known keys in the store, changed at run time
//! ```
//!
//! A *definition* is a schedule in seed 004's word. It *fires* at an instant, or for an event; the task that
//! this creates is a *run*.
//!
//! There is no leader election: any number of nodes tick at the same time. A conditional write (optimistic
//! concurrency) decides what happens at a fire, and the run's idempotency key is made of its schedule and
//! instant, so that it is one task however often it is enqueued.
//!
//! The clock is passed in; nothing here reads the system's.

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
