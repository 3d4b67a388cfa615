//! The binary, run as people run it.

mod configuration;
mod doctor;
mod guide;
mod help;
mod output;
mod store;
mod support;
