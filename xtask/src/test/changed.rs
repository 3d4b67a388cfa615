//! What a change can affect: the packages it touches, and every package that uses them, in tests as well.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::metadata::Package;

/// What is to be tested.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scope {
    Workspace,
    /// These packages of ours; none if the change touches nothing that is compiled.
    Packages(BTreeSet<String>),
}

impl Scope {
    /// Arguments that select it for cargo and nextest.
    pub(super) fn arguments(&self) -> Vec<String> {
        match self {
            Self::Workspace => vec!["--workspace".into()],
            Self::Packages(names) => {
                names.iter().flat_map(|name| ["--package".into(), name.clone()]).collect()
            }
        }
    }

    /// Without the packages that have no library: cargo refuses to look for doctests in those.
    pub(super) fn with_libraries(&self) -> Self {
        match self {
            Self::Workspace => Self::Workspace,
            Self::Packages(names) => {
                Self::Packages(names.iter().filter(|name| *name != "xtask").cloned().collect())
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Packages(names) if names.is_empty())
    }
}

/// Files that differ from where this branch left `base`, committed or not.
pub(super) fn files(root: &Path, base: &str) -> Result<Vec<String>, String> {
    let fork = git(root, &["merge-base", base, "HEAD"]).map_err(|error| {
        format!("{error}; name the commit to compare with: `cargo xtask test --changed COMMIT`")
    })?;
    let mut names = git(root, &["diff", "--name-only", "--no-renames", fork.trim()])?;
    names.push_str(&git(root, &["ls-files", "--others", "--exclude-standard"])?);
    Ok(names.lines().map(str::to_owned).collect())
}

fn git(root: &Path, args: &[&str]) -> Result<String, String> {
    let shown = format!("git {}", args.join(" "));
    let output = Command::new("git").args(args).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{shown}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The packages that `files` belong to, and their dependents.
pub(super) fn scope(files: &[String], packages: &[Package]) -> Scope {
    let members: Vec<&Package> = packages.iter().filter(|package| package.member).collect();
    let mut affected = BTreeSet::new();
    for file in files {
        let owner = members
            .iter()
            .find(|package| file.strip_prefix(&package.directory).is_some_and(|rest| rest.starts_with('/')));
        match owner {
            Some(owner) => drop(affected.insert(owner.name.clone())),
            // A workspace of its own, which has a step of its own.
            None if file.starts_with("benches/") => {}
            // Guides are compiled and run by tests of the façade, and xtask checks their links.
            None if is_prose(file) => affected.extend(["weaver".to_owned(), "xtask".to_owned()]),
            // Settings of the compiler, the lock file, the tests' configuration.
            None => return Scope::Workspace,
        }
    }
    loop {
        let dependents = members.iter().filter(|package| {
            package.dependencies.iter().any(|dependency| affected.contains(&dependency.name))
        });
        let more: Vec<String> = dependents.map(|package| package.name.clone()).collect();
        let before = affected.len();
        affected.extend(more);
        if affected.len() == before {
            return Scope::Packages(affected);
        }
    }
}

fn is_prose(file: &str) -> bool {
    file.ends_with(".md") || ["docs/", "examples/", ".github/"].iter().any(|place| file.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn member(name: &str, directory: &str, uses: &[(&str, bool)]) -> Package {
        let dependency = |(name, dev): &(&str, bool)| Dependency { name: (*name).into(), dev: *dev };
        Package {
            name: name.into(),
            directory: directory.into(),
            member: true,
            dependencies: uses.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    fn packages() -> Vec<Package> {
        vec![
            member("core", "crates/core", &[]),
            member("store", "crates/store", &[("core", false), ("kit", true)]),
            member("kit", "crates/kit", &[("core", false)]),
            member("client", "crates/client", &[("core", false)]),
        ]
    }

    fn affected(files: &[&str]) -> Scope {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        scope(&files, &packages())
    }

    fn only(names: &[&str]) -> Scope {
        Scope::Packages(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_change_reaches_its_package_and_all_that_use_it_in_tests_too() {
        assert_eq!(affected(&["crates/client/src/lib.rs"]), only(&["client"]));
        assert_eq!(affected(&["crates/kit/src/lib.rs"]), only(&["kit", "store"]));
        assert_eq!(affected(&["crates/core/Cargo.toml"]), only(&["client", "core", "kit", "store"]));
    }

    #[test]
    fn a_directory_whose_name_begins_alike_is_another_package() {
        assert_eq!(affected(&["crates/core-extra/x"]), Scope::Workspace);
    }

    #[test]
    fn prose_is_tested_by_the_facade_and_benchmarks_by_their_own_step() {
        assert_eq!(affected(&["docs/guides/x.md", "README.md"]), only(&["weaver", "xtask"]));
        assert!(affected(&["benches/src/lib.rs"]).is_empty());
    }

    #[test]
    fn what_every_package_is_built_with_affects_every_package() {
        for file in ["Cargo.lock", "clippy.toml", ".config/nextest.toml", "rust-toolchain.toml"] {
            assert_eq!(affected(&[file]), Scope::Workspace, "{file}");
        }
    }
}
