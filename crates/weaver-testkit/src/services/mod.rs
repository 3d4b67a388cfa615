//! Throw-away services: real servers, started by the first test that needs one, shared by all tests, and
//! stopped when no test uses them.

pub mod boto3;
pub mod browser;
pub mod dynamodb;
pub mod faketime;
pub mod pooler;
pub mod postgres;
