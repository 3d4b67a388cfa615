//! The binary, run as people run it.

mod assigned;
mod cancelled;
mod canned;
#[cfg(target_os = "linux")]
mod clock;
mod configuration;
mod doctor;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod guide;
mod help;
mod killed;
mod local;
mod many;
mod merge;
mod merge_defaults;
mod merge_messages;
mod merge_removal;
mod output;
#[cfg(feature = "postgres")]
mod postgres;
mod private;
#[cfg(target_os = "linux")]
mod process_lock;
mod purge;
#[cfg(feature = "postgres")]
mod purge_stores;
mod remote;
mod schedules;
mod schedules_guide;
mod secrets;
mod serve;
mod server;
mod server_guide;
mod store;
mod support;
mod worker;
