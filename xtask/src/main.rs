//! The project's own commands, run as `cargo xtask <verb>`.
//!
//! Verbs are parsed by hand: there are few, and everyone who builds Weaver compiles this crate first.

mod bench;
mod cargo;
mod fuzz;
mod metadata;
mod mutate;
mod project;
mod services;
mod setup;
mod simulate;
mod step;
mod test;
mod tidy;
mod torture;

use std::process::ExitCode;

use project::Project;

const USAGE: &str = "\
The project's own commands.

Usage: cargo xtask <verb> [options]

Verbs:
  setup                  Install what the tests need besides Rust, or print the command that does.
  test [options]         The gate: setup, format, tidy, clippy, benchmarks, tests, doctests, docs, seeds.
                         Stops at the first step that fails; --keep-going runs all of them.
                         --all runs every case of the enumerations that the gate samples.
                         --changed [BASE] runs what can be affected by what differs from BASE [default: main].
                         --stress N repeats the tests N times beside two busy cores; lists what failed.
  fuzz [TARGET] [--minutes N]
                         Change the kept inputs of a decoder for so long [default: 1]; alone: list them.
  tidy [--no-build]      Licences, dependency direction, sizes, links, words, manifests, seed tables.
                         --no-build leaves out the seed tables, which need the compiled tests.
  bench <name> [args]    Run one benchmark of benches/ in release mode; args are passed on.
  simulate [options]     Run worlds on virtual time and check every guarantee; --seeds N for how many,
                         --seed S to replay one (with --trace: everything that happened in it).
  torture [options]      Kill processes that use the embedded store and check what they were promised;
                         --minutes N for how long, --seed S and --kills K to repeat a round's draws.
  mutate admission       Break one rule of admission after the other in core (in a copy of the last commit)
                         and expect the same conformance test to fail on all four stores: minutes per rule.
  screenshots            Pictures of every page of the dashboard, into docs/images.
  services               Start the throw-away databases of the tests for hands-on work, until Ctrl-C.

Examples:
  cargo xtask test
  cargo xtask test --keep-going
  cargo xtask test --changed
  cargo xtask tidy --no-build
  cargo xtask bench core
  cargo xtask simulate --seeds 100000
  cargo xtask torture --minutes 10
  cargo xtask fuzz codec --minutes 10
  cargo xtask services
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match Verb::parse(&args).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, PartialEq)]
enum Verb {
    Help,
    Test(test::Options),
    Tidy { build: bool },
    Bench { name: Option<String>, args: Vec<String> },
    Fuzz { args: Vec<String> },
    Simulate { args: Vec<String> },
    Torture { args: Vec<String> },
    Mutate { args: Vec<String> },
    Screenshots,
    Services,
    Setup,
}

impl Verb {
    fn parse(args: &[String]) -> Result<Self, String> {
        let Some((verb, rest)) = args.split_first() else { return Ok(Self::Help) };
        // A benchmark's own `--help` belongs to the benchmark, so it is looked for only outside `bench`.
        if verb != "bench" && args.iter().any(|arg| arg == "--help" || arg == "-h") {
            return Ok(Self::Help);
        }
        match verb.as_str() {
            "help" => Ok(Self::Help),
            "test" => test::Options::parse(rest).map(Self::Test),
            "tidy" => Ok(Self::Tidy { build: !flag(rest, "--no-build")? }),
            "bench" => {
                let name = rest.first().filter(|name| !name.starts_with('-')).cloned();
                let args = rest.iter().skip(usize::from(name.is_some()));
                let args = args.skip_while(|arg| *arg == "--").cloned().collect();
                Ok(Self::Bench { name, args })
            }
            "fuzz" => Ok(Self::Fuzz { args: rest.to_vec() }),
            "simulate" => Ok(Self::Simulate { args: rest.to_vec() }),
            "torture" => Ok(Self::Torture { args: rest.to_vec() }),
            "mutate" => Ok(Self::Mutate { args: rest.to_vec() }),
            "screenshots" if rest.is_empty() => Ok(Self::Screenshots),
            "services" if rest.is_empty() => Ok(Self::Services),
            "setup" if rest.is_empty() => Ok(Self::Setup),
            other => Err(format!("no verb `{other}`; `cargo xtask --help` lists them")),
        }
    }
}

/// Whether `name` is given; any other argument is refused, so that a misspelt flag is not a silent default.
fn flag(args: &[String], name: &str) -> Result<bool, String> {
    match args.iter().find(|arg| *arg != name) {
        Some(unknown) => Err(format!("no option `{unknown}` here; did you mean `{name}`?")),
        None => Ok(!args.is_empty()),
    }
}

fn run(verb: Verb) -> Result<(), String> {
    match verb {
        Verb::Help => {
            print!("{USAGE}");
            Ok(())
        }
        Verb::Test(options) => test::run(&Project::find()?, &options),
        Verb::Tidy { build } => tidy::run(&Project::find()?, build),
        Verb::Bench { name, args } => bench::run(&Project::find()?, name.as_deref(), &args),
        Verb::Fuzz { args } => fuzz::run(&Project::find()?, &args),
        Verb::Simulate { args } => simulate::run(&Project::find()?, &args),
        Verb::Torture { args } => torture::run(&Project::find()?, &args),
        Verb::Mutate { args } => mutate::run(&Project::find()?, &args),
        Verb::Screenshots => services::screenshots(&Project::find()?),
        Verb::Services => services::run(&Project::find()?),
        Verb::Setup => setup::run(&Project::find()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Verb, String> {
        Verb::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn no_verb_and_help_print_the_usage() {
        assert_eq!(parse(""), Ok(Verb::Help));
        assert_eq!(parse("--help"), Ok(Verb::Help));
        assert_eq!(parse("test --help"), Ok(Verb::Help));
    }

    #[test]
    fn flags_are_read_and_misspelt_ones_refused() {
        assert_eq!(parse("test"), Ok(Verb::Test(test::Options::default())));
        let keep_going = test::Options { keep_going: true, ..Default::default() };
        assert_eq!(parse("test --keep-going"), Ok(Verb::Test(keep_going)));
        assert_eq!(parse("tidy --no-build"), Ok(Verb::Tidy { build: false }));
        assert!(parse("test --keepgoing").unwrap_err().contains("--keep-going"));
    }

    #[test]
    fn a_benchmark_gets_its_arguments_with_or_without_the_separator() {
        let expected = Verb::Bench {
            name: Some("core".into()),
            args: vec!["--rounds".into(), "7".into(), "--help".into()],
        };
        assert_eq!(parse("bench core --rounds 7 --help").as_ref(), Ok(&expected));
        assert_eq!(parse("bench core -- --rounds 7 --help").as_ref(), Ok(&expected));
        assert_eq!(parse("bench"), Ok(Verb::Bench { name: None, args: vec![] }));
    }

    #[test]
    fn a_simulation_and_torture_get_their_arguments() {
        let args = || vec!["--seed".into(), "7".into()];
        assert_eq!(parse("simulate --seed 7"), Ok(Verb::Simulate { args: args() }));
        assert_eq!(parse("torture --seed 7"), Ok(Verb::Torture { args: args() }));
    }

    #[test]
    fn an_unknown_verb_points_to_the_help() {
        assert!(parse("tets").unwrap_err().contains("--help"));
    }
}
