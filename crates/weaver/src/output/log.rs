//! Logging of workers and servers, on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::LevelFilter;

use crate::config::{Config, keys};

/// Starts logging at the level of the setting `log`.
pub(crate) fn start_log(config: &Config) {
    let level: LevelFilter = config.text(keys::LOG).parse().unwrap_or(LevelFilter::INFO);
    let is_coloured = super::Paint::choose(config.text(keys::COLOR), io::stderr().is_terminal()).is_on();
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(is_coloured);
    // Fails only if a subscriber is already set.
    let _ = log.try_init();
}
