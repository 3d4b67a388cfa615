//! `cargo xtask services`: the databases that tests start for themselves, for hands-on work.

use crate::cargo::Cargo;
use crate::project::Project;

pub(crate) fn run(project: &Project) -> Result<(), String> {
    Cargo::new(["run", "--package", "weaver-testkit", "--example", "services"]).run(project.root())
}
