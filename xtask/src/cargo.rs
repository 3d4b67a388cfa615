//! Running cargo as a child process.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::setup;

/// One cargo call that is also shown to people, so that what failed can be repeated by copy and paste.
#[derive(Debug, Clone)]
pub(crate) struct Cargo {
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
}

impl Cargo {
    pub(crate) fn new<A: Into<String>>(args: impl IntoIterator<Item = A>) -> Self {
        Self { args: args.into_iter().map(Into::into).collect(), env: Vec::new() }
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// The call as typed in a shell.
    pub(crate) fn shown(&self) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}=\"{value}\" ")).collect();
        format!("{env}cargo {}", self.args.join(" "))
    }

    /// Run with our stdout and stderr, so that test summaries stay visible.
    pub(crate) fn run(&self, root: &Path) -> Result<(), String> {
        let status = self.status(root)?;
        if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", self.shown())) }
    }

    /// Run with our stdout and stderr and return how it ended, for calls whose failure is an answer.
    pub(crate) fn status(&self, root: &Path) -> Result<ExitStatus, String> {
        self.command(root).status().map_err(|e| format!("cannot start `{}`: {e}", self.shown()))
    }

    /// Run and return stdout; stderr stays visible, because it says why cargo failed.
    pub(crate) fn output(&self, root: &Path) -> Result<String, String> {
        let output = self
            .command(root)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| format!("cannot start `{}`: {e}", self.shown()))?;
        if !output.status.success() {
            return Err(format!("`{}` ended with {}; its message is above", self.shown(), output.status));
        }
        String::from_utf8(output.stdout)
            .map_err(|e| format!("`{}` wrote something else than UTF-8: {e}", self.shown()))
    }

    /// Start with a stderr that the caller reads.
    pub(crate) fn start_with_stderr(&self, root: &Path) -> Result<Child, String> {
        let started = self.command(root).stderr(Stdio::piped()).spawn();
        started.map_err(|e| format!("cannot start `{}`: {e}", self.shown()))
    }

    /// Whether the call succeeds, without showing anything.
    pub(crate) fn succeeds(&self, root: &Path) -> bool {
        let mut command = self.command(root);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn command(&self, root: &Path) -> Command {
        // Cargo names itself in `CARGO`: the same toolchain runs the steps, whatever comes first in PATH.
        let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(program);
        command.args(&self.args).current_dir(root).env("PATH", setup::path_with_tools(root));
        // What cargo told us of our own package. Build scripts that look at it (ring's does) would run again,
        // and half the workspace after them, each time a person runs cargo without us in between.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_our_package(name)) {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn is_of_our_package(name: &OsStr) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_not_told_of_our_own_package() {
        let command = Cargo::new(["--version"]).command(Path::new("."));
        // This test was told by the cargo that runs it.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let removed = |name: &str| command.get_envs().any(|(known, value)| known == name && value.is_none());
        assert!(removed("CARGO_MANIFEST_DIR") && removed("CARGO_PKG_NAME"));
    }

    #[test]
    fn a_call_is_shown_as_it_would_be_typed() {
        let doc = Cargo::new(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(doc.shown(), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }

    #[test]
    fn a_failing_call_says_which_one_it_was() {
        let call = Cargo::new(["no-such-verb-of-cargo"]);
        assert!(!call.succeeds(Path::new(".")));
        assert!(call.run(Path::new(".")).unwrap_err().contains("cargo no-such-verb-of-cargo"));
    }
}
