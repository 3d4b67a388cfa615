//! The built-in handlers, run by a real worker on the in-memory store: real processes, real connections,
//! virtual time.

#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod exec;
mod exec_ends;
mod harness;
mod http;
mod http_guard;
