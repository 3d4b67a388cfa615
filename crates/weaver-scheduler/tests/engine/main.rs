//! The scheduler on every store: one list of sentences, each shown on memory, the embedded store, PostgreSQL
//! and DynamoDB.

mod bed;
mod crashes;
mod effort;
mod events;
mod fires;
mod looping;
mod misfires;
mod nodes;
mod overlap;
mod settings;
mod stores;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use bed::{Bed, Case};
use stores::Place;

fn main() -> ExitCode {
    let cases = || {
        [
            ("fires", fires::cases()),
            ("misfires", misfires::cases()),
            ("overlap", overlap::cases()),
            ("events", events::cases()),
            ("nodes", nodes::cases()),
            ("crashes", crashes::cases()),
            ("settings", settings::cases()),
            ("effort", effort::cases()),
            ("looping", looping::cases()),
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
    runtime.block_on(async { (case.run)(Bed::open(place).await).await });
    Ok(())
}
