//! Attacks that fail: each promise of the server's security, over real connections.

mod browser;
mod failures;
mod listen;
#[path = "../support/log.rs"]
mod log;
mod permissions;
mod proxy;
mod revocation;
mod root_token;
mod secrets;
mod server;
mod tls;
mod tokens;
