//! The server: Weaver's HTTP API over any store, who may do what, and the handlers that need no program of yours.
//!
//! ```text
//! request ─▶ security (who, from where) ─▶ api (wire ⇄ ports) ─▶ store
//!                                              └▶ problem: every error says what was wrong and what to do
//! dashboard: pages in a browser             over the same handlers as the API
//! handlers: http, exec                     run by a worker inside the server, or elsewhere
//! serve: connections, each within its limits, until the shutdown
//! ```

pub mod api;
pub mod dashboard;
pub mod handlers;
pub mod problem;
pub mod security;
pub mod serve;
