//! Talking to a Weaver server: the types on the wire, a typed client, and the remote source of work that lets a worker
//! run beside any server.
//!
//! ```text
//! Worker ─▶ RemoteSource ─▶ Client ─▶ HTTP ─▶ weaver-server      wire: what both sides agree on
//! ```

pub mod wire;
