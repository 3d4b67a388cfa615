//! `cargo xtask services` and `screenshots`: what tests start for themselves, for hands-on work.

use crate::cargo::Cargo;
use crate::project::Project;

pub(crate) fn run(project: &Project) -> Result<(), String> {
    Cargo::new(["run", "--package", "weaver-testkit", "--example", "services"]).run(project.root())
}

/// Pictures of the dashboard, where README shows them.
pub(crate) fn screenshots(project: &Project) -> Result<(), String> {
    let example = ["run", "--package", "weaver-server", "--example", "screenshots", "--", "docs/images"];
    Cargo::new(example).run(project.root())
}
