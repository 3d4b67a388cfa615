//! Attacks that fail: each promise of the server's security, over real connections.

mod browser;
mod failures;
mod first_token;
mod listen;
mod local_socket;
#[path = "../support/log.rs"]
mod log;
mod permissions;
mod proxy;
mod revocation;
mod secrets;
mod server;
mod tls;
mod tokens;
