//! `cargo xtask setup`: what the tests need besides Rust, installed where that is allowed and named where it
//! is not. `cargo xtask test` calls it first: minutes of compiling are not spent before a missing program is
//! reported.

mod needs;

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::Cargo;
use crate::project::Project;
use needs::{Machine, Need};

/// The flags of `apt-get install`: no questions, and none of the desktop that browsers recommend.
const APT_FLAGS: &str = "--yes --no-install-recommends";
/// A mirror that answers with an error once does not fail the gate.
const APT_RETRIES: [&str; 2] = ["-o", "Acquire::Retries=5"];

/// Install what is missing, or fail with the one command that does.
pub(crate) fn run(project: &Project) -> Result<(), String> {
    let machine = Machine::this();
    let missing = machine.missing();
    if !missing.is_empty() {
        packages(&machine, &missing)?;
    }
    nextest(project.root())?;
    println!("setup: everything the tests need is installed");
    Ok(())
}

/// Programs of our own go here, and before `PATH` for every cargo call: nothing outside the build is changed.
pub(crate) fn tools(root: &Path) -> PathBuf {
    target(root).join("xtask-tools")
}

/// Cargo's target directory.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |given| root.join(given))
}

/// `PATH` with [`tools`] in front.
pub(crate) fn path_with_tools(root: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(tools(root).join("bin")).chain(std::env::split_paths(&path));
    std::env::join_paths(all).unwrap_or(path)
}

fn packages(machine: &Machine, missing: &[Need]) -> Result<(), String> {
    let list = missing.iter().map(|need| format!("  {} ({})\n", need.package, need.reason));
    println!("setup: missing\n{}", list.collect::<String>().trim_end());
    let Some(apt_get) = machine.program("apt-get").filter(|_| is_root()) else {
        return Err(advice(missing, machine.program("apt-get").is_some()));
    };
    let names = missing.iter().map(|need| need.package);
    let install = std::iter::once("install").chain(APT_FLAGS.split(' ')).chain(names);
    // A fresh machine has no package lists, and those of an old one name files that are gone.
    apt(&apt_get, ["update"])?;
    apt(&apt_get, install)?;
    let still = machine.missing();
    if still.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = still.iter().map(|need| need.package).collect();
    Err(format!(
        "apt-get installed everything, but nothing provides: {}; look for the program in PATH",
        names.join(", ")
    ))
}

fn apt<'a>(apt_get: &Path, args: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let args: Vec<&str> = args.into_iter().chain(APT_RETRIES).collect();
    let shown = format!("apt-get {}", args.join(" "));
    println!("setup: {shown}");
    let mut command = Command::new(apt_get);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` ended with {status}; its message is above"))
    }
}

/// The command a person runs instead.
fn advice(missing: &[Need], has_apt: bool) -> String {
    let names: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let names = names.join(" ");
    if has_apt {
        return format!(
            "the tests need programs that only root may install; run\n  \
             sudo sh -c 'apt-get update && apt-get install {APT_FLAGS} {names}'"
        );
    }
    format!(
        "the tests need programs, and there is no apt-get to install them; as Debian names them:\n  {names}"
    )
}

/// The owner of our own entry in /proc is our effective user: no `id` is needed, which may be missing as
/// well.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

fn nextest(root: &Path) -> Result<(), String> {
    if Cargo::new(["nextest", "--version"]).succeeds(root) {
        return Ok(());
    }
    let tools = tools(root).to_string_lossy().into_owned();
    let install = Cargo::new(["install", "cargo-nextest", "--locked", "--root", &tools]);
    println!("setup: {}", install.shown());
    install.run(root)?;
    if Cargo::new(["nextest", "--version"]).succeeds(root) {
        return Ok(());
    }
    Err(format!(
        "cargo-nextest was installed into {tools}, but `cargo nextest --version` fails; run it to see why"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_may_not_install_gets_one_command_with_every_package() {
        let missing = needs::NEEDS;
        let advice = advice(missing, true);
        assert_eq!(advice.lines().count(), 2, "{advice}");
        assert!(advice.contains("sudo sh -c 'apt-get update && apt-get install --yes"), "{advice}");
        assert!(missing.iter().all(|need| advice.contains(need.package)), "{advice}");
    }

    #[test]
    fn a_machine_without_apt_gets_the_names() {
        let advice = advice(needs::NEEDS, false);
        assert!(advice.contains("no apt-get") && advice.contains("chromium-driver"), "{advice}");
    }

    #[test]
    fn our_own_tools_come_first_in_the_path() {
        let path = path_with_tools(Path::new("/repository"));
        let first = std::env::split_paths(&path).next().unwrap();
        assert!(first.ends_with("xtask-tools/bin"), "{first:?}");
    }
}
