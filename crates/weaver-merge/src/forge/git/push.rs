//! Landing: `git push --force-with-lease`, a compare-and-set of the branch, from the private objects of
//! candidates onto our view of the repository. It runs the server-side hooks.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::command::{Git, GitOutput, RunOptions, printable};
use super::{branch_ref, hooks};
use crate::domain::Oid;
use crate::forge::{ForgeError, Landing};

/// Git's message when a reference-transaction hook declines, which is not "hook declined".
const ABORTED_BY_HOOK: &str = "ref updates aborted by hook";
/// Transient refusals of the machine: a lock, a full or read-only disk.
const TRANSIENT: [&str; 3] = ["failed to update ref", "unpacker error", "failed to write"];

pub(super) async fn push(
    git: &Git,
    hooks_path: Option<&Path>,
    branch: &str,
    from: &Oid,
    to: &Oid,
) -> Result<GitOutput, Refusal> {
    if let Some(place) = checked_out(git, branch).await? {
        return Err(Refusal::Refused(format!(
            "`{branch}` is checked out at {place}; check out another branch there, and resume the queue"
        )));
    }
    let hooks = hooks(git, hooks_path).await?;
    let view = git.view().await?;
    let name = branch_ref(branch);
    let lease = format!("--force-with-lease={name}:{from}");
    // Settings given to `push` do not reach the receiving side. It has only these and the view's.
    let hooks = hooks.as_deref().unwrap_or(Path::new("/dev/null"));
    let hooks =
        hooks.to_str().ok_or_else(|| Refusal::Refused(format!("{} is not UTF-8", hooks.display())))?;
    let receive = format!("--receive-pack=git -c core.hooksPath={} receive-pack", quoted(hooks));
    let receiver = view.receiver.to_string_lossy().into_owned();
    let refspec = format!("{to}:{name}");
    let words =
        ["push", "--porcelain", "--no-verify", "--no-follow-tags", &lease, &receive, &receiver, &refspec];
    let repository = git.repository().as_os_str().to_owned();
    let (who, email) = (OsStr::new("Weaver merge queue"), OsStr::new("merge-queue@weaver.invalid"));
    // For the reflog, and for hooks that need the repository's path.
    let env = [
        ("GIT_COMMITTER_NAME", who),
        ("GIT_COMMITTER_EMAIL", email),
        ("WEAVER_REPOSITORY", repository.as_os_str()),
    ];
    Ok(git.push(&words, RunOptions { env: &env, ..RunOptions::default() }).await?)
}

pub(super) enum Refusal {
    Refused(String),
    Error(ForgeError),
}

impl From<ForgeError> for Refusal {
    fn from(error: ForgeError) -> Self {
        Self::Error(error)
    }
}

/// Classifies a push that did not move the branch.
pub(super) fn classify(pushed: &GitOutput) -> Result<Landing, ForgeError> {
    let said = pushed.text();
    // `!\t<from>:<to>\t[remote rejected] (<reason>)`
    let status = said.lines().find_map(|line| line.strip_prefix("!\t"));
    let remote = status.and_then(|status| status.split_once("[remote rejected]"));
    let reason = remote.map(|(_, reason)| reason.trim().trim_matches(['(', ')']).to_owned());
    let (text, all) = (pushed.remote_text(), pushed.stderr());
    // It ends the receiving side before a report.
    if let Some((before, _)) = all.split_once(ABORTED_BY_HOOK) {
        let lines = before.lines().map(|line| line.trim_start_matches("remote:").trim());
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("fatal:")).collect();
        let lines: Vec<String> = lines.into_iter().map(printable).collect();
        return Ok(Landing::Declined(lines.join("\n")));
    }
    match reason {
        Some(reason) if reason.contains("hook declined") => {
            Ok(Landing::Declined(if text.is_empty() { reason } else { text }))
        }
        Some(reason) if !TRANSIENT.iter().any(|known| reason.contains(known)) => {
            Ok(Landing::Refused(if text.is_empty() { reason } else { format!("{reason}: {text}") }))
        }
        _ => Err(pushed.error()),
    }
}

/// The directory of hooks to run, if there are any.
pub(super) async fn hooks(git: &Git, configured: Option<&Path>) -> Result<Option<PathBuf>, Refusal> {
    let directory = match configured {
        Some(path) => path.to_owned(),
        None => match git.system_hooks_path().await? {
            Some(path) => path,
            None => git.git_dir()?.join("hooks"),
        },
    };
    let uid = git.view().await?.uid;
    hooks::qualified(&directory, uid).map_err(Refusal::Refused)
}

/// The work tree that has the branch checked out, if there is one.
pub(super) async fn checked_out(git: &Git, branch: &str) -> Result<Option<String>, ForgeError> {
    let git_dir = git.git_dir()?;
    let is_at = |head: &Path| {
        let text = std::fs::read_to_string(head).unwrap_or_default();
        text.trim_end().strip_prefix("ref: ") == Some(branch_ref(branch).as_str())
    };
    if !git.view().await?.is_bare && is_at(&git_dir.join("HEAD")) {
        return Ok(Some(git.repository().display().to_string()));
    }
    for worktree in std::fs::read_dir(git_dir.join("worktrees")).into_iter().flatten().flatten() {
        if is_at(&worktree.path().join("HEAD")) {
            let place = std::fs::read_to_string(worktree.path().join("gitdir")).unwrap_or_default();
            return Ok(Some(place.trim().trim_end_matches("/.git").to_owned()));
        }
    }
    Ok(None)
}

/// Quotes for the shell that git runs the command with.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
