//! `cargo xtask bench <name>`: benchmarks live in a workspace of their own, so that the systems they are
//! compared with never enter the product's build.

use std::path::{Path, PathBuf};

use crate::cargo::Cargo;
use crate::project::Project;
use crate::setup;

/// The benchmark that starts the released command, and therefore has it built first.
const SERVER: &str = "api";

pub(crate) fn run(project: &Project, name: Option<&str>, args: &[String]) -> Result<(), String> {
    let known = names(project.files()?);
    let name = choose(&known, name)?;
    let fixed = ["run", "--release", "--manifest-path", "benches/Cargo.toml", "--bin", name, "--"];
    let mut bench = Cargo::new(fixed.into_iter().chain(args.iter().map(String::as_str)));
    if name == SERVER {
        Cargo::new(["build", "--release", "--package", "weaver", "--bin", "weaver"]).run(project.root())?;
        bench = bench.env("WEAVER_BIN", weaver(project.root()).to_string_lossy());
    }
    bench.run(project.root())
}

fn choose<'a>(known: &'a [String], name: Option<&str>) -> Result<&'a str, String> {
    let found = known.iter().find(|known| Some(known.as_str()) == name);
    found.map(String::as_str).ok_or_else(|| {
        let asked = name.map_or("name a benchmark".into(), |name| format!("no benchmark `{name}`"));
        if known.is_empty() {
            return format!("{asked}; benches/src/bin has none yet");
        }
        format!("{asked}; there are: {}", known.join(", "))
    })
}

/// Where cargo leaves the released command.
fn weaver(root: &Path) -> PathBuf {
    setup::target(root).join("release/weaver")
}

/// Binaries as cargo finds them: `src/bin/NAME.rs` and `src/bin/NAME/main.rs`.
fn names(files: &[String]) -> Vec<String> {
    let inside = files.iter().filter_map(|path| path.strip_prefix("benches/src/bin/"));
    let named = inside.filter_map(|path| path.strip_suffix("/main.rs").or_else(|| path.strip_suffix(".rs")));
    named.filter(|name| !name.contains('/')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_the_binaries_of_the_bench_crate() {
        let files =
            ["benches/src/bin/core.rs", "benches/src/bin/http/main.rs", "benches/src/bin/http/load.rs"];
        assert_eq!(names(&files.map(str::to_owned)), ["core", "http"]);
    }

    #[test]
    fn an_unknown_benchmark_lists_what_exists() {
        let known = ["core".to_owned(), "http".to_owned()];
        assert_eq!(choose(&known, Some("core")), Ok("core"));
        assert_eq!(choose(&known, Some("cor")).unwrap_err(), "no benchmark `cor`; there are: core, http");
        assert!(choose(&[], None).unwrap_err().contains("has none"));
    }
}
