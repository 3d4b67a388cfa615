//! Running `git`: no hooks, no configuration but the repository's own, nothing inherited, never for ever.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use weaver_core::clock::Clock;

use crate::domain::Oid;
use crate::forge::ForgeError;

/// How long one command may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How much of an error's text is kept.
const ERROR_MAX_BYTES: usize = 1000;

#[derive(Clone)]
pub(super) struct Git {
    path: PathBuf,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Git {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Git({})", self.path.display())
    }
}

/// What a command answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }

    pub(super) fn error(&self) -> ForgeError {
        let mut said = String::from_utf8_lossy(&self.stderr).trim().to_owned();
        said.truncate(said.floor_char_boundary(ERROR_MAX_BYTES));
        ForgeError::Unavailable(match (&said, self.code) {
            (said, _) if !said.is_empty() => said.clone(),
            (_, Some(code)) => format!("git ended with code {code}"),
            (_, None) => "git was ended by a signal".to_owned(),
        })
    }
}

/// What a command gets beside its words.
#[derive(Default)]
pub(super) struct With<'a> {
    pub(super) env: &'a [(&'a str, &'a OsStr)],
    pub(super) stdin: Option<&'a str>,
    pub(super) work_tree: Option<&'a Path>,
}

impl Git {
    pub(super) fn new(path: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { path, clock }
    }

    /// Runs a command, whatever its code is.
    pub(super) async fn run(&self, words: &[&str]) -> Result<Answer, ForgeError> {
        self.run_with(words, With::default()).await
    }

    /// Runs a command that must end with 0; answers its output.
    pub(super) async fn good(&self, words: &[&str]) -> Result<String, ForgeError> {
        self.good_with(words, With::default()).await
    }

    pub(super) async fn good_with(&self, words: &[&str], with: With<'_>) -> Result<String, ForgeError> {
        let answer = self.run_with(words, with).await?;
        if answer.code == Some(0) { Ok(answer.text()) } else { Err(answer.error()) }
    }

    pub(super) async fn run_with(&self, words: &[&str], with: With<'_>) -> Result<Answer, ForgeError> {
        let git_dir = self.git_dir()?;
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&git_dir);
        if let Some(work_tree) = with.work_tree {
            command.arg("--work-tree").arg(work_tree).current_dir(work_tree);
        } else {
            command.current_dir(&git_dir);
        }
        let settings =
            ["core.hooksPath=/dev/null", "gc.auto=0", "core.fsmonitor=false", "i18n.commitEncoding=UTF-8"];
        command.args(settings.iter().flat_map(|setting| ["-c", setting])).args(words);
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            // Grafted history would make one object mean different things to different people.
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("LC_ALL", "C"),
        ]);
        command.envs(with.env.iter().copied());
        command.stdin(if with.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let unavailable = |error: std::io::Error| {
            ForgeError::Unavailable(format!("git cannot be run ({error}); install it: apt-get install git"))
        };
        let mut child = command.spawn().map_err(unavailable)?;
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), with.stdin) {
            pipe.write_all(text.as_bytes()).await.map_err(unavailable)?;
        }
        let deadline = self.clock.monotonic().saturating_add(TIMEOUT);
        tokio::select! {
            ended = child.wait_with_output() => {
                let output = ended.map_err(unavailable)?;
                Ok(Answer { code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
            }
            // Dropped, it is killed.
            () = self.clock.sleep_until(deadline) => {
                Err(ForgeError::Unavailable(format!("git {} did not end within {TIMEOUT:?}", words[0])))
            }
        }
    }

    pub(super) async fn is_ancestor(&self, old: &Oid, new: &Oid) -> Result<bool, ForgeError> {
        let asked = self.run(&["merge-base", "--is-ancestor", old.as_str(), new.as_str()]).await?;
        match asked.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(asked.error()),
        }
    }

    /// Said outright, because git would otherwise look for a repository in the directories above.
    fn git_dir(&self) -> Result<PathBuf, ForgeError> {
        let inner = self.path.join(".git");
        let found = [&inner, &self.path].into_iter().find(|path| path.join("objects").is_dir());
        found.cloned().ok_or_else(|| ForgeError::Gone(self.path.display().to_string()))
    }
}
