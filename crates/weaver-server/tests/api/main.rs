//! Every endpoint over real connections, against the real server.

mod audit;
mod bad_input;
mod bodies;
mod connections;
mod enqueue;
mod events;
mod identity;
mod leases;
mod limits;
mod lists;
#[path = "../support/log.rs"]
mod log;
mod logs;
mod merge;
mod merge_bench;
mod merge_namespaces;
mod merge_removal;
#[path = "../support/merge_side.rs"]
mod merge_side;
mod metrics;
mod openapi;
mod protected;
mod quarantine;
mod queues;
mod quotas;
mod ready;
#[path = "../../../weaver-merge/tests/repository/repo.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "it is shared with the tests of the merge queue, which use all of it"
)]
mod repo;
mod restart;
mod schedules;
mod server;
mod task;
mod tokens;
mod waits;
mod wire;
mod work;
mod workers;
