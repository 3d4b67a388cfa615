//! The scheduler on every store: each test runs on the in-memory store, the embedded store, PostgreSQL and
//! DynamoDB.

mod concurrency;
mod crashes;
mod effort;
mod events;
mod fires;
mod harness;
mod misfires;
mod nodes;
mod run_loop;
mod settings;
mod stores;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use harness::{Case, Harness};
use stores::Place;

fn main() -> ExitCode {
    let cases = || {
        [
            ("fires", fires::cases()),
            ("misfires", misfires::cases()),
            ("concurrency", concurrency::cases()),
            ("events", events::cases()),
            ("nodes", nodes::cases()),
            ("crashes", crashes::cases()),
            ("settings", settings::cases()),
            ("effort", effort::cases()),
            ("run_loop", run_loop::cases()),
        ]
    };
    let mut trials = Vec::new();
    for place in Place::ALL {
        for (group, cases) in cases() {
            for case in cases {
                let name = format!("{}::{group}::{}", place.name(), case.name);
                trials.push(Trial::test(name, move || run(place, &case)));
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run(place: Place, case: &Case) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async { (case.run)(Harness::open(place).await).await });
    Ok(())
}
