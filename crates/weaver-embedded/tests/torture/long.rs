//! More of it: `cargo xtask torture --minutes N`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::round::{self, Tally};

pub(crate) const MINUTES: &str = "--minutes";
pub(crate) const SEED: &str = "--seed";
pub(crate) const KILLS: &str = "--kills";

const KILLS_DEFAULT: u64 = 40;
const USAGE: &str = "\
Usage: cargo xtask torture [--minutes N] [--seed S] [--kills K]
  --minutes N  go on with the next seed until N minutes have passed; without it: one round
  --seed S     begin with this seed (1)
  --kills K    kill so many processes on each store (40)";

/// Kills on store after store.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let (minutes, first, kills) = match parse(args) {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("error: {message}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let begun = now();
    let mut all = Tally::default();
    for seed in first.. {
        match round::run(seed, kills) {
            Ok(tally) => {
                println!("seed {seed}: {tally}");
                all += tally;
            }
            Err(message) => {
                eprintln!("seed {seed}: {message}");
                return ExitCode::FAILURE;
            }
        }
        if now().duration_since(begun) >= minutes {
            break;
        }
    }
    println!("no promise was broken: {all}");
    ExitCode::SUCCESS
}

#[expect(clippy::disallowed_methods, reason = "a person asked for so many real minutes")]
fn now() -> Instant {
    Instant::now()
}

fn parse(args: &[String]) -> Result<(Duration, u64, u64), String> {
    let (mut minutes, mut seed, mut kills) = (0, 1, KILLS_DEFAULT);
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(format!("`{}` needs a number", pair[0])) };
        let number = value.parse().map_err(|_| format!("`{name} {value}`: that is not a number"))?;
        match name.as_str() {
            MINUTES => minutes = number,
            SEED => seed = number,
            KILLS => kills = number,
            other => return Err(format!("no option `{other}`")),
        }
    }
    Ok((Duration::from_secs(60 * minutes), seed, kills))
}
