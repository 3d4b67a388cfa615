//! `cargo xtask simulate`: worlds on virtual time, in release mode, as many as there is patience for.

use crate::cargo::Cargo;
use crate::project::Project;

pub(crate) fn run(project: &Project, args: &[String]) -> Result<(), String> {
    let fixed = ["run", "--release", "--package", "weaver-testkit", "--example", "simulate", "--"];
    Cargo::new(fixed.into_iter().chain(args.iter().map(String::as_str))).run(project.root())
}
