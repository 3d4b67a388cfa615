//! The dashboard, in a real browser against a real server with tasks running.

mod browser;
mod site;

mod accessible;
mod choosing;
mod journey;
mod live;
mod login;
mod logs;
mod resume;
mod robust;
mod schedules;
mod settings;
mod strange;
