//! The agent's command line, and how the prompt is passed to it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use weaver_process::confine::User;

/// The placeholder for the path of a file with the prompt.
pub const PROMPT_FILE: &str = "{prompt_file}";
/// A placeholder for the prompt itself, which is refused.
const PROMPT_ITSELF: &str = "{prompt}";

/// Why a command line is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No program, or an empty one.
    #[error("no command: write it after `--`, or choose a profile of weaver.toml with --profile")]
    Empty,
    /// The prompt would be an argument.
    #[error(
        "`{{prompt}}` would make the prompt an argument, which could be parsed as an option and read by every user of the \
         machine: omit it to use standard input, or write `{{prompt_file}}` for the path of a file with the prompt"
    )]
    PromptAsArgument,
    /// The placeholder is in the program's name.
    #[error("`{{prompt_file}}` is only allowed in arguments, not in the program's name")]
    ProgramFromPrompt,
}

/// The command line of an agent. Its `Display` quotes arguments with spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    program: OsString,
    args: Vec<String>,
}

impl AgentCommand {
    /// `words` is the program and its arguments; there is no shell.
    pub fn new(words: &[String]) -> Result<Self, CommandError> {
        let Some((program, args)) = words.split_first().filter(|(program, _)| !program.is_empty()) else {
            return Err(CommandError::Empty);
        };
        if words.iter().any(|word| word.contains(PROMPT_ITSELF)) {
            return Err(CommandError::PromptAsArgument);
        }
        if program.contains(PROMPT_FILE) {
            return Err(CommandError::ProgramFromPrompt);
        }
        Ok(Self { program: program.into(), args: args.to_vec() })
    }

    /// Whether the prompt is passed in a file; otherwise on standard input.
    pub fn uses_file(&self) -> bool {
        self.args.iter().any(|arg| arg.contains(PROMPT_FILE))
    }

    /// The arguments, with the path of the prompt's file for its placeholder.
    pub fn args(&self, file: Option<&Path>) -> Vec<OsString> {
        let path = file.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        self.args.iter().map(|arg| arg.replace(PROMPT_FILE, &path).into()).collect()
    }

    /// Finds the program: a path is relative to the project, a name is searched for in `PATH`. Called for
    /// each prompt, so that an agent can be installed or updated while the runner runs.
    ///
    /// # Errors
    /// If there is no executable file; the message says what to do.
    pub fn find(&self, project: &Path, path: Option<&OsStr>) -> Result<PathBuf, String> {
        weaver_process::program::find(&self.program, project, path)
    }
}

impl std::fmt::Display for AgentCommand {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.program.to_string_lossy())?;
        self.args.iter().try_for_each(|arg| match arg.contains(char::is_whitespace) || arg.is_empty() {
            true => write!(out, " '{arg}'"),
            false => write!(out, " {arg}"),
        })
    }
}

/// A file with a prompt, with mode 0600; removed on drop.
#[derive(Debug)]
pub struct PromptFile(PathBuf);

impl PromptFile {
    /// Writes a file into the temporary directory, owned by `user` or this process's user.
    pub fn write(prompt: &Bytes, user: Option<User>) -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let name = format!("weaver-prompt-{:032x}.txt", u128::from_ne_bytes(bytes));
        let path = std::env::temp_dir().join(name);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let written = Self(path);
        file.write_all(prompt)?;
        if let Some(user) = user {
            std::os::unix::fs::fchown(&file, Some(user.uid), Some(user.gid))?;
        }
        Ok(written)
    }

    /// The path for [`AgentCommand::args`].
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PromptFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(file = %self.0.display(), %error, "removing the prompt's file failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn command(words: &[&str]) -> Result<AgentCommand, CommandError> {
        AgentCommand::new(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_prompt_is_never_an_argument() {
        assert_eq!(command(&["agent", "--say={prompt}"]), Err(CommandError::PromptAsArgument));
        assert_eq!(command(&["{prompt_file}"]), Err(CommandError::ProgramFromPrompt));
        assert_eq!(command(&[]), Err(CommandError::Empty));
        let plain = command(&["agent", "-p"]).unwrap();
        assert!(!plain.uses_file());
        assert_eq!(plain.args(None), ["-p"]);
    }

    #[test]
    fn the_file_of_a_prompt_is_readable_by_its_owner_only_and_removed_on_drop() {
        let file = PromptFile::write(&Bytes::from_static(b"hello"), None).unwrap();
        let path = file.path().to_owned();
        assert_eq!(fs::read(&path).unwrap(), b"hello");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let with_file = command(&["agent", "--file={prompt_file}", "x"]).unwrap();
        assert_eq!(with_file.args(Some(&path))[0], *format!("--file={}", path.display()));
        drop(file);
        assert!(!path.exists());
    }
}
