//! Simulates a number of worlds: `cargo xtask simulate --seeds 100000`, or replays one:
//! `… --seed 7 --trace`.

use std::process::ExitCode;
use std::sync::Arc;

use weaver_core::queue::memory::InMemoryQueue;
use weaver_testkit::simulation::buggy::{Bug, ModelStore};
use weaver_testkit::simulation::{Outcome, checks, run, simulate, simulate_on};

const USAGE: &str = "\
Usage: cargo xtask simulate [--seeds N] [--from S] | --seed S [--trace] [--bug NAME]

  --seeds N   how many worlds; 10000 unless given
  --from S    the first seed; 0 unless given
  --seed S    one world, twice, compared
  --trace     everything that happened in it
  --bug NAME  on a naive store with a deliberate bug; `none` for the store alone
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match Options::parse(&args) {
        Ok(options) if options.seed.is_some() => one(&options),
        Ok(options) => many(&options),
        Err(message) => {
            eprintln!("error: {message}\n\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, Default)]
struct Options {
    seed: Option<u64>,
    seeds: Option<u64>,
    from: Option<u64>,
    trace: bool,
    on_model: bool,
    bug: Option<Bug>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{arg}` needs a value"));
            match arg.as_str() {
                "--seed" => options.seed = Some(number(value()?)?),
                "--seeds" => options.seeds = Some(number(value()?)?),
                "--from" => options.from = Some(number(value()?)?),
                "--trace" => options.trace = true,
                "--bug" => {
                    let name = value()?;
                    options.on_model = true;
                    options.bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == *name);
                    if options.bug.is_none() && name != "none" {
                        return Err(format!("no bug `{name}`; there are {:?}", Bug::ALL));
                    }
                }
                other => return Err(format!("no option `{other}`")),
            }
        }
        Ok(options)
    }

    fn simulate(&self, seed: u64) -> Outcome {
        match self.on_model {
            true => simulate_on(seed, &|clock| Arc::new(ModelStore::new(clock, self.bug))),
            false => simulate(seed),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn one(options: &Options) -> ExitCode {
    let seed = options.seed.unwrap_or_default();
    if options.trace {
        let history = match options.on_model {
            true => run(seed, &|clock| Arc::new(ModelStore::new(clock, options.bug))),
            false => run(seed, &|clock| Arc::new(InMemoryQueue::new(clock))),
        };
        println!("{:#?}", history.scenario);
        history.entries.iter().for_each(|entry| println!("{entry}"));
        checks::check(&history).iter().for_each(|violation| println!("{violation}"));
    }
    let (first, second) = (options.simulate(seed), options.simulate(seed));
    print!("{first}");
    println!("{} entries, trace {:016x}", first.entries, first.trace_hash);
    if first.trace_hash != second.trace_hash {
        println!("the second run went another way: trace {:016x}", second.trace_hash);
        return ExitCode::FAILURE;
    }
    if first.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(options: &Options) -> ExitCode {
    const SHOWN_EVERY: u64 = 1000;
    let from = options.from.unwrap_or(0);
    let seeds = options.seeds.unwrap_or(10_000);
    let (mut entries, mut failed) = (0, 0);
    for (done, seed) in (from..from.saturating_add(seeds)).enumerate() {
        let outcome = options.simulate(seed);
        entries += outcome.entries;
        if !outcome.violations.is_empty() {
            failed += 1;
            print!("{outcome}");
        }
        if (done as u64 + 1).is_multiple_of(SHOWN_EVERY) {
            println!("{} worlds, {entries} entries, {failed} with broken promises", done + 1);
        }
    }
    println!("{seeds} worlds from seed {from}, {entries} entries, {failed} with broken promises");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
