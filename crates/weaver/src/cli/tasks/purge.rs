//! `weaver tasks purge`: deletes one task permanently, after saving its stored form.

use std::fs::{self, File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use weaver_api::RawTask;
use weaver_client::ClientError;

use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tasks purge 17\n  weaver tasks purge 17 --yes\n  \
    weaver tasks purge 17 --yes --save ./evidence.json\n\n\
    Requires an admin token. To end a task normally, cancel it: weaver tasks cancel 17")]
pub(crate) struct PurgeArgs {
    /// Id of the task
    id: String,
    /// File to save the stored form in; must not exist [default: ./weaver-task-ID.json]
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Do not ask for confirmation if the task has not ended or is unreadable
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &PurgeArgs) -> Result<Exit, Failure> {
    let (client, namespace) = (&remote.client, remote.namespace.as_str());
    let raw = client.raw_task(namespace, &args.id).await?;
    let file = args.save.clone().unwrap_or_else(|| default_file(&raw.id));
    check_free(&file)?;
    if !raw.finished && !args.yes {
        confirm(&raw)?;
    }
    save(&file, &raw.text)?;
    let shown = file.display().to_string();
    if let Err(error) = client.remove_task(namespace, &args.id, &raw.digest).await {
        return Err(not_removed(error, &file, &raw));
    }
    let answer = json!({
        "id": raw.id, "namespace": raw.namespace, "state": raw.state, "unreadable": raw.unreadable,
        "removed": true, "saved": shown, "digest": raw.digest,
    });
    remote
        .context
        .output
        .answer(&answer, || format!("Task {} is deleted; its stored form is saved in {shown}.\n", raw.id))?;
    Ok(Exit::Done)
}

fn check_free(file: &Path) -> Result<(), Failure> {
    // A dangling symlink counts as existing.
    if fs::symlink_metadata(file).is_ok() {
        let message = format!("{} already exists; nothing was deleted", file.display());
        return Err(Failure::new(Exit::Refused, message).next("name another file with --save"));
    }
    Ok(())
}

/// In the current directory, whatever id another client chose.
fn default_file(id: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain: String = id.chars().take(100).map(|c| if is_plain(c) { c } else { '_' }).collect();
    PathBuf::from(format!("weaver-task-{plain}.json"))
}

/// Asks on the terminal; without one, `--yes` is required.
fn confirm(raw: &RawTask) -> Result<(), Failure> {
    let state = raw.state.as_deref().unwrap_or("unknown");
    let what = match &raw.unreadable {
        Some(why) => format!("task {} of namespace `{}` (state {state}; {why})", raw.id, raw.namespace),
        None => {
            format!("task {} of namespace `{}`, which has not ended (state {state})", raw.id, raw.namespace)
        }
    };
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Refused, format!("delete {what}: not confirmed"))
            .next("pass --yes, or run it on a terminal"));
    }
    eprint!("delete {what}? Type yes: ");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line); // Unreadable input is not `yes`.
    if line.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "not confirmed: nothing was deleted").next("type `yes`, or pass --yes"))
}

/// Fsynced before the task is deleted; never overwrites a file. Mode 0600: payloads may hold secrets.
fn save(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io(file, &error);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).and_then(|()| {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all())
    });
    written.map_err(|error| {
        let _ = fs::remove_file(file); // A partial copy is useless; the error is returned.
        failed(error)
    })
}

/// A refused deletion needs no copy. If the outcome is unknown, the copy may be the only one left.
fn not_removed(error: ClientError, file: &Path, raw: &RawTask) -> Failure {
    if matches!(&error, ClientError::Refused(problem) if problem.status < 500) {
        let _ = fs::remove_file(file); // Best effort: it would block the next try.
        return Failure::from(error);
    }
    let Failure { exit, message, .. } = Failure::from(error);
    let shown = file.display();
    let message = format!("{message}; task {} may have been deleted", raw.id);
    let next = format!("check with `weaver tasks show {}`; its stored form is saved in {shown}", raw.id);
    Failure::new(exit, message).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_in_the_current_directory_whatever_the_id() {
        for (id, file) in [("17", "weaver-task-17.json"), ("../../etc/x y", "weaver-task-.._.._etc_x_y.json")]
        {
            assert_eq!(default_file(id), Path::new(file));
        }
        assert_eq!(default_file(&"x".repeat(999)).as_os_str().len(), "weaver-task-.json".len() + 100);
    }
}
