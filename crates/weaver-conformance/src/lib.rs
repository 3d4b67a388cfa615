//! The conformance suite: one named test per guarantee and edge case, grouped by subject, run on any store.
//!
//! A store takes part with a test target of its own (`harness = false`):
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     weaver_conformance::main("memory", factory)
//! }
//! ```
//!
//! A test is an `async fn(Harness)` whose name is a sentence; `cases!` lists the tests of a file, so that a
//! forgotten one is dead code and fails the build.

mod admin;
mod answers;
mod assignment;
mod audited;
mod bad_input;
mod cancel;
mod counting;
mod delays;
mod dispatch;
mod document_batches;
mod documents;
mod enqueue;
mod events;
mod expiry;
mod explain;
mod explain_states;
mod fragile;
mod idempotency;
mod isolation;
mod journal;
mod leadership;
mod leases;
mod limits_and_pause;
mod lists;
mod order;
mod outcomes;
mod renewals;
mod report_and_lease;
mod runners;
mod serial_keys;
mod tasks;
mod terminal;
mod unreadable;
mod unreadable_others;
mod verbs;
mod waiter;
mod waiting;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use weaver_testkit::harness::{Boxed, Factory, Harness, TestStore, steps};

/// One test of the suite.
pub struct Case {
    /// Its function name, a sentence.
    pub name: &'static str,
    /// Panics if the test fails.
    pub run: fn(Harness) -> Boxed<()>,
}

/// Lists the tests of a file.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// The tests of this file.
        pub(super) fn cases() -> Vec<$crate::Case> {
            vec![$($crate::Case {
                name: stringify!($name),
                run: |harness| Box::pin($name(harness)),
            }),*]
        }
    };
}
pub(crate) use cases;

/// Every test with its subject, the name of its file.
pub fn all() -> Vec<(&'static str, Case)> {
    let groups: Vec<(&'static str, Vec<Case>)> = vec![
        ("enqueue", enqueue::cases()),
        ("audited", audited::cases()),
        ("idempotency", idempotency::cases()),
        ("order", order::cases()),
        ("delays", delays::cases()),
        ("leases", leases::cases()),
        ("renewals", renewals::cases()),
        ("outcomes", outcomes::cases()),
        ("report_and_lease", report_and_lease::cases()),
        ("counting", counting::cases()),
        ("fragile", fragile::cases()),
        ("terminal", terminal::cases()),
        ("serial_keys", serial_keys::cases()),
        ("limits_and_pause", limits_and_pause::cases()),
        ("cancel", cancel::cases()),
        ("expiry", expiry::cases()),
        ("assignment", assignment::cases()),
        ("dispatch", dispatch::cases()),
        ("leadership", leadership::cases()),
        ("isolation", isolation::cases()),
        ("events", events::cases()),
        ("waiting", waiting::cases()),
        ("tasks", tasks::cases()),
        ("lists", lists::cases()),
        ("admin", admin::cases()),
        ("runners", runners::cases()),
        ("documents", documents::cases()),
        ("documents", document_batches::cases()),
        ("journal", journal::cases()),
        ("verbs", verbs::cases()),
        ("explain", explain::cases()),
        ("explain", explain_states::cases()),
        ("bad_input", bad_input::cases()),
        ("unreadable", unreadable::cases()),
        ("unreadable", unreadable_others::cases()),
    ];
    groups.into_iter().flat_map(|(group, cases)| cases.into_iter().map(move |case| (group, case))).collect()
}

/// Runs the suite on the stores a factory makes; understands the arguments of `cargo test` and
/// `cargo nextest`.
pub fn main<F>(store: &str, factory: impl Fn() -> F + Send + Sync + 'static) -> ExitCode
where
    F: Future<Output = Box<dyn TestStore>> + Send + 'static,
{
    let factory: Factory = Arc::new(move || Box::pin(factory()));
    let trials = all()
        .into_iter()
        .map(|(group, case)| {
            let factory = Arc::clone(&factory);
            Trial::test(format!("{store}::{group}::{}", case.name), move || run(&factory, &case))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run(factory: &Factory, case: &Case) -> Result<(), Failed> {
    // Two threads, so that tests about concurrency have some.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let harness = Harness::open(factory).await;
        (case.run)(harness).await;
    });
    Ok(())
}
