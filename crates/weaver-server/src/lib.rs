//! The server: Weaver's HTTP API over any store, authentication and authorization, and the dashboard.
//!
//! ```text
//! request ─▶ security (token, role, origin) ─▶ api (wire ⇄ ports) ─▶ store
//!                                                  └▶ problem: an error with its cause and a hint
//! dashboard: HTML pages over the same handlers as the API
//! serve: connection limits, timeouts, graceful shutdown
//! ```

pub mod api;
pub mod dashboard;
pub mod problem;
pub mod security;
pub mod serve;

// For a program that starts a server; the routes stay private.
pub use api::{ApiLimits, AppState, Metric, StoreMetrics};
