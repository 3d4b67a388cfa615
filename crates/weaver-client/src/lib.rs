//! A typed client of a Weaver server, and the remote work source: a worker that runs on any machine.
//!
//! ```text
//! Worker ─▶ RemoteSource ─▶ Client ─▶ HTTP ─▶ weaver-server      weaver-api: the types of both sides
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
