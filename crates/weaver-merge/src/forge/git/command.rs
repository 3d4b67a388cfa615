//! Runs `git` through a view of the repository, so that no program the repository names runs. Nothing is
//! inherited from this process, and every command has a time limit.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use weaver_core::clock::Clock;

use super::view::{Settings, Stamp, View, Views};
use crate::domain::Oid;
use crate::forge::ForgeError;

/// Time limit of one command.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Characters kept of a line that git or a hook wrote.
const LINE_MAX: usize = 500;
const ERROR_MAX_BYTES: usize = 1000;

#[derive(Clone)]
pub(super) struct Git {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    views: Arc<Views>,
}

impl fmt::Debug for Git {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Git({})", self.path.display())
    }
}

#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl GitOutput {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }

    pub(super) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Output of the receiving side of a push, including hooks.
    pub(super) fn remote_text(&self) -> String {
        let said = self.stderr();
        let lines = said.lines().filter_map(|line| line.strip_prefix("remote:")).map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("error: hook declined"));
        let mut text = lines.map(printable).collect::<Vec<_>>().join("\n");
        text.truncate(text.floor_char_boundary(ERROR_MAX_BYTES));
        text
    }

    pub(super) fn error(&self) -> ForgeError {
        let mut said = String::from_utf8_lossy(&self.stderr).trim().to_owned();
        said.truncate(said.floor_char_boundary(ERROR_MAX_BYTES));
        ForgeError::Unavailable(match (&said, self.code) {
            (said, _) if !said.is_empty() => said.clone(),
            (_, Some(code)) => format!("git exited with code {code}"),
            (_, None) => "git was killed by a signal".to_owned(),
        })
    }
}

/// Environment, input and work tree of a command.
#[derive(Default)]
pub(super) struct RunOptions<'a> {
    pub(super) env: &'a [(&'a str, &'a OsStr)],
    pub(super) stdin: Option<&'a str>,
    pub(super) work_tree: Option<&'a Path>,
}

impl Git {
    pub(super) fn new(path: PathBuf, clock: Arc<dyn Clock>, views: Arc<Views>) -> Self {
        Self { path, clock, views }
    }

    /// The path from the configuration.
    pub(super) fn repository(&self) -> &Path {
        &self.path
    }

    /// Runs a command; a non-zero exit code is not an error.
    pub(super) async fn run(&self, words: &[&str]) -> Result<GitOutput, ForgeError> {
        self.run_with(words, RunOptions::default()).await
    }

    /// Runs a command that must exit with 0; returns its stdout.
    pub(super) async fn run_ok(&self, words: &[&str]) -> Result<String, ForgeError> {
        self.run_ok_with(words, RunOptions::default()).await
    }

    pub(super) async fn run_ok_with(
        &self,
        words: &[&str],
        with: RunOptions<'_>,
    ) -> Result<String, ForgeError> {
        let answer = self.run_with(words, with).await?;
        if answer.code == Some(0) { Ok(answer.text()) } else { Err(answer.error()) }
    }

    pub(super) async fn run_with(
        &self,
        words: &[&str],
        with: RunOptions<'_>,
    ) -> Result<GitOutput, ForgeError> {
        let view = self.view().await?;
        let mut command = bare_command();
        command.arg("--git-dir").arg(&view.path);
        if let Some(work_tree) = with.work_tree {
            command.arg("--work-tree").arg(work_tree).current_dir(work_tree);
        } else {
            command.current_dir(&view.path);
        }
        command.args(words).env("GIT_CONFIG_NOSYSTEM", "1").envs(with.env.iter().copied());
        self.spawn(command, words[0], with.stdin).await
    }

    /// Runs a push. If it is killed, its processes may outlive it: then the view is kept.
    pub(super) async fn push(&self, words: &[&str], with: RunOptions<'_>) -> Result<GitOutput, ForgeError> {
        self.view().await?;
        self.views.push_started().map_err(|error| {
            ForgeError::Unavailable(format!("cannot use the view of {}: {error}", self.path.display()))
        })?;
        let answer = self.run_with(words, with).await?;
        if answer.code.is_some() {
            self.views.push_ended();
        }
        Ok(answer)
    }

    /// Counts a candidate: from time to time, its objects go to a new directory.
    pub(super) fn candidate_built(&self) -> Result<(), ForgeError> {
        self.views.candidate_built(&self.git_dir()?);
        Ok(())
    }

    /// The directories that git uses instead of the repository's own.
    pub(super) async fn view(&self) -> Result<View, ForgeError> {
        let git_dir = self.git_dir()?;
        let stamp = Stamp::of(&git_dir);
        if let Some(view) = self.views.get(&git_dir, stamp) {
            return Ok(view);
        }
        let settings = self.settings(&git_dir.join("config")).await?;
        self.views.make(&git_dir, stamp, &settings).map_err(|error| {
            ForgeError::Unavailable(format!("cannot create a view of {}: {error}", self.path.display()))
        })
    }

    /// Reads a configuration as data: includes are not followed, programs not run.
    async fn settings(&self, file: &Path) -> Result<Settings, ForgeError> {
        if !file.is_file() {
            return Ok(Settings::new());
        }
        let mut command = bare_command();
        command.args(["config", "--file"]).arg(file).args(["--no-includes", "--null", "--list"]);
        command.env("GIT_CONFIG_NOSYSTEM", "1").current_dir("/");
        let listed = self.spawn(command, "config", None).await?;
        if listed.code != Some(0) {
            return Err(listed.error());
        }
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let setting = |entry: &str| {
            let (name, value) = entry.split_once('\n').unwrap_or((entry, ""));
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Ok(text.split('\0').filter(|entry| !entry.is_empty()).map(setting).collect())
    }

    /// `core.hooksPath` of the system's configuration.
    pub(super) async fn system_hooks_path(&self) -> Result<Option<PathBuf>, ForgeError> {
        let mut command = bare_command();
        command.args(["config", "--system", "--type=path", "--get", "core.hooksPath"]).current_dir("/");
        let output = self.spawn(command, "config", None).await?;
        let path = output.text();
        match output.code {
            Some(0) if !path.is_empty() => Ok(Some(PathBuf::from(path))),
            Some(0 | 1) => Ok(None),
            _ => Err(output.error()),
        }
    }

    async fn spawn(
        &self,
        mut command: Command,
        word: &str,
        stdin: Option<&str>,
    ) -> Result<GitOutput, ForgeError> {
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let unavailable = |error: std::io::Error| {
            ForgeError::Unavailable(format!("cannot run git ({error}); install it: apt-get install git"))
        };
        let mut child = command.spawn().map_err(unavailable)?;
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), stdin) {
            pipe.write_all(text.as_bytes()).await.map_err(unavailable)?;
        }
        let deadline = self.clock.monotonic().saturating_add(TIMEOUT);
        tokio::select! {
            ended = child.wait_with_output() => {
                let output = ended.map_err(unavailable)?;
                Ok(GitOutput { code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
            }
            // Dropping the child kills it.
            () = self.clock.sleep_until(deadline) => {
                Err(ForgeError::Unavailable(format!("git {word} timed out after {TIMEOUT:?}")))
            }
        }
    }

    pub(super) async fn is_ancestor(&self, old: &Oid, new: &Oid) -> Result<bool, ForgeError> {
        let output = self.run(&["merge-base", "--is-ancestor", old.as_str(), new.as_str()]).await?;
        match output.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(output.error()),
        }
    }

    /// Explicit, because git would otherwise search the parent directories for a repository.
    pub(super) fn git_dir(&self) -> Result<PathBuf, ForgeError> {
        let inner = self.path.join(".git");
        let found = [&inner, &self.path].into_iter().find(|path| path.join("objects").is_dir());
        found.cloned().ok_or_else(|| ForgeError::NotFound(self.path.display().to_string()))
    }
}

/// Strips control characters from a line of foreign output, and limits its length.
pub(super) fn printable(line: &str) -> String {
    line.chars().filter(|letter| !letter.is_control()).take(LINE_MAX).collect()
}

/// Git with only `PATH` of this process's environment, and without the user's configuration.
fn bare_command() -> Command {
    let mut command = Command::new("git");
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.envs([
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        // Missing objects are not fetched.
        ("GIT_NO_LAZY_FETCH", "1"),
        // Replaced objects would make one object name mean different contents.
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("LC_ALL", "C"),
    ]);
    command
}
