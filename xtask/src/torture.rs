//! `cargo xtask torture`: processes that use the embedded store are killed, in release mode, for as long as
//! there is patience.

use crate::cargo::Cargo;
use crate::project::Project;

pub(crate) fn run(project: &Project, args: &[String]) -> Result<(), String> {
    let fixed = ["test", "--release", "--package", "weaver-embedded", "--test", "torture", "--"];
    Cargo::new(fixed.into_iter().chain(arguments(args))).run(project.root())
}

/// The test binary goes by its first argument: without one it would run the gate's few kills.
fn arguments(args: &[String]) -> impl Iterator<Item = &str> {
    let default = args.is_empty().then_some(["--minutes", "1"]);
    default.into_iter().flatten().chain(args.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torture_takes_a_minute_unless_told_otherwise() {
        assert_eq!(arguments(&[]).collect::<Vec<_>>(), ["--minutes", "1"]);
        let seed = ["--seed".to_owned(), "7".to_owned()];
        assert_eq!(arguments(&seed).collect::<Vec<_>>(), ["--seed", "7"]);
    }
}
