//! `weaver runner` and `weaver prompt`, run as people run them: real processes for server, runners and
//! agents.

mod bed;
mod cancelled;
mod ends;
mod guide;
mod input;
mod life;
mod lost;
mod output;
mod pipe;
#[path = "../cli/support.rs"]
mod support;
mod together;
