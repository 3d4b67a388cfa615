//! The merge queue without a repository: order, invariants, plans.
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod build;
mod config;
mod failed_checks;
mod invariants;
mod landing;
mod order;
mod random;
mod removal;
mod scene;
mod size;
