//! The agent's command line: what is run, and how the prompt gets to it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use weaver_process::confine::User;

/// Stands in an argument for the path of a file that holds the prompt.
pub const PROMPT_FILE: &str = "{prompt_file}";
/// What people write when they want the prompt itself there.
const PROMPT_ITSELF: &str = "{prompt}";

/// Why a command line cannot be an agent's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is none.
    #[error("there is no command: write it after `--`, or name a profile of weaver.toml with --profile")]
    Empty,
    /// The prompt would be an argument.
    #[error(
        "`{{prompt}}` would make the prompt an argument, which could be read as an option and seen by every user of the \
         machine: leave it out for standard input, or write `{{prompt_file}}` for the path of a file with the prompt"
    )]
    PromptAsArgument,
    /// The program would be named by a prompt's file.
    #[error("`{{prompt_file}}` can only be in arguments, not in the program's name")]
    ProgramFromPrompt,
}

/// A command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    program: OsString,
    args: Vec<String>,
}

impl AgentCommand {
    /// A program and its arguments.
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

    /// Whether the prompt goes into a file; else it is on standard input.
    pub fn uses_file(&self) -> bool {
        self.args.iter().any(|arg| arg.contains(PROMPT_FILE))
    }

    /// The arguments, with the path of the prompt's file in its places.
    pub fn args(&self, file: Option<&Path>) -> Vec<OsString> {
        let path = file.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        self.args.iter().map(|arg| arg.replace(PROMPT_FILE, &path).into()).collect()
    }

    /// Where the program is: a path counts from the project, a name is searched for in `PATH`. Looked up for
    /// each prompt, so that an agent can be installed or updated while the runner runs.
    ///
    /// # Errors
    /// What was looked for, where, and what to do.
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

/// A file with a prompt, for its owner only; removed with this.
#[derive(Debug)]
pub struct PromptFile(PathBuf);

impl PromptFile {
    /// Writes one into the system's directory for such files, for this process's user or another one.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PromptFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(file = %self.0.display(), %error, "a prompt's file is left behind");
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
    fn the_file_of_a_prompt_is_its_owners_alone_and_goes_with_it() {
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
