//! `cargo xtask fuzz`: the fuzz tests of the gate, for as long as there is patience.

use crate::cargo::Cargo;
use crate::project::Project;

/// A test that reads changed inputs.
struct Target {
    /// Also the directory of its corpus: `crates/PACKAGE/corpus/NAME`.
    name: &'static str,
    package: &'static str,
    /// What cargo compiles it with: a test of its own, or the library's.
    binary: &'static [&'static str],
    reads: &'static str,
}

const TARGETS: &[Target] = &[
    Target {
        name: "codec",
        package: "weaver-embedded",
        binary: &["--test", "codec"],
        reads: "values of the embedded store",
    },
    Target {
        name: "wire",
        package: "weaver-api",
        binary: &["--test", "wire"],
        reads: "requests of the HTTP API",
    },
    Target {
        name: "schedule",
        package: "weaver-scheduler",
        binary: &["--test", "calendar"],
        reads: "cron expressions and zones",
    },
    Target {
        name: "ansi",
        package: "weaver-server",
        binary: &["--lib"],
        reads: "colours in the log of a task",
    },
    Target {
        name: "config",
        package: "weaver-merge",
        binary: &["--test", "pure"],
        reads: "the merge queue's .weaver/merge.toml",
    },
];

/// Read by `weaver_testkit::fuzz`.
const SECONDS: &str = "FUZZ_SECONDS";

pub(crate) fn run(project: &Project, args: &[String]) -> Result<(), String> {
    let Some((name, rest)) = args.split_first() else {
        TARGETS.iter().for_each(|target| println!("{:<10} {}", target.name, target.reads));
        return Ok(());
    };
    let target = TARGETS.iter().find(|target| target.name == name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("no target `{name}`; there are: {}", names.join(", "))
    })?;
    call(target, minutes(rest)?).run(project.root())
}

fn call(target: &Target, minutes: u64) -> Cargo {
    // cargo's own runner: nextest ends a test that takes minutes. In the dev profile, whose overflow checks
    // find more.
    let args = ["test", "--package", target.package].into_iter().chain(target.binary.iter().copied());
    let args = args.chain(["--", "fuzzed_", "--nocapture"]);
    Cargo::new(args).env(SECONDS, (minutes * 60).to_string())
}

fn minutes(args: &[String]) -> Result<u64, String> {
    match args {
        [] => Ok(1),
        [flag, minutes] if flag == "--minutes" => {
            minutes.parse().map_err(|_| format!("`{minutes}` is no whole number of minutes"))
        }
        _ => Err("after the target comes nothing, or `--minutes N`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_run_for_so_long_alone() {
        let shown = call(&TARGETS[0], 10).shown();
        assert_eq!(
            shown,
            "FUZZ_SECONDS=\"600\" cargo test --package weaver-embedded --test codec -- fuzzed_ --nocapture"
        );
    }

    #[test]
    fn a_minute_is_the_default_and_anything_else_refused() {
        let read = |line: &str| minutes(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read(""), Ok(1));
        assert_eq!(read("--minutes 7"), Ok(7));
        assert!(read("--minutes soon").is_err() && read("--hours 1").is_err());
    }

    #[test]
    fn every_target_has_a_corpus() {
        let project = Project::find().unwrap();
        for target in TARGETS {
            let corpus = project.root().join("crates").join(target.package).join("corpus").join(target.name);
            assert!(corpus.read_dir().is_ok_and(|files| files.count() > 2), "{} has none", target.name);
        }
        assert!(run(&project, &["codex".to_owned()]).unwrap_err().contains("codec"));
    }
}
