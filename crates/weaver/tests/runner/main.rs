//! `weaver runner` and `weaver prompt`, run as people run them: real processes for server, runners and
//! agents.

mod cancelled;
mod ends;
#[cfg(feature = "dynamodb")]
mod foreign;
#[cfg(feature = "dynamodb")]
mod foreign_ids;
mod guide;
mod harness;
mod input;
mod life;
mod lost;
mod output;
mod pipe;
#[path = "../cli/support.rs"]
mod support;
mod together;
