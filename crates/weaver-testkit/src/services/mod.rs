//! Throw-away services: the real thing, started by the first test that needs it, shared by all, gone when
//! nobody uses it.

pub mod browser;
pub mod dynamodb;
pub mod faketime;
pub mod pooler;
pub mod postgres;
