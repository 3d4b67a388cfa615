//! The server: Weaver's HTTP API over any store, who may do what, and its pages.
//!
//! ```text
//! request ─▶ security (who, from where) ─▶ api (wire ⇄ ports) ─▶ store
//!                                              └▶ problem: every error says what was wrong and what to do
//! dashboard: pages in a browser             over the same handlers as the API
//! serve: connections, each within its limits, until the shutdown
//! ```

pub mod api;
pub mod dashboard;
pub mod problem;
pub mod security;
pub mod serve;

// What a program that starts a server sets up; the routes stay inside.
pub use api::{ApiLimits, AppState, Figure, Figures};
