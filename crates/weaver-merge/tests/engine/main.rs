//! The merge queue as a whole: real repositories, real processes, a store in memory.
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod checks;
mod flow;
mod foreign;
mod forged_documents;
mod forged_task;
mod harness;
#[path = "../support/hooked.rs"]
mod hooked;
mod hooks;
mod independent;
mod landed_config;
mod lossy;
mod namespaces;
mod notifications;
mod pinned_head;
#[path = "../support/proof.rs"]
mod proof;
mod races;
mod removal;
#[path = "../repository/repo.rs"]
#[expect(dead_code, reason = "it is shared with the tests of the forge, which use all of it")]
mod repo;
mod steps;
mod strange_changes;
mod unwritable_repository;
