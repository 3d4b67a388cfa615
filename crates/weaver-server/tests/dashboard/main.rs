//! The dashboard, in a real browser against a real server with tasks running.

mod browser;
mod site;

mod accessibility;
mod bulk;
mod journey;
mod live;
mod login;
mod logs;
mod merge;
mod merge_namespaces;
mod merge_repo;
#[path = "../support/merge_side.rs"]
mod merge_side;
mod quarantine;
#[path = "../../../weaver-merge/tests/repository/repo.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "it is shared with the tests of the merge queue, which use all of it"
)]
mod repo;
mod resume;
mod schedules;
mod selection;
mod settings;
mod untrusted;
