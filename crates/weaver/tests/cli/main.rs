//! The binary, run as people run it.

mod canned;
mod configuration;
mod doctor;
mod guide;
mod help;
mod output;
mod remote;
mod serve;
mod store;
mod support;
mod worker;
