//! The merge queue as a whole: real repositories, real processes, a store in memory.
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod bench;
mod checks;
mod crash;
mod flow;
mod people;
mod races;
#[path = "../repository/repo.rs"]
#[expect(dead_code, reason = "it is shared with the tests of the forge, which use all of it")]
mod repo;
