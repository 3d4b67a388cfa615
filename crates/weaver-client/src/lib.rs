//! Talking to a Weaver server: a typed client, and the remote source of work that lets a worker run beside
//! any server.
//!
//! ```text
//! Worker ─▶ RemoteSource ─▶ Client ─▶ HTTP ─▶ weaver-server      weaver-api: what both sides agree on
//! ```

mod client;
mod error;
mod events;
mod http;
mod merge;
mod schedules;
mod source;
pub mod sse;

pub use client::{Client, ClientOptions, Proxy, SOCKET_SCHEME};
pub use error::ClientError;
pub use events::{Event, Events, MergeEvents};
pub use source::RemoteSource;
