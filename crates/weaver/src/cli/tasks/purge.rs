//! `weaver tasks purge`: remove one task for good, with its stored form saved first.

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
    Needs an admin's token. Cancel a task that may simply end: weaver tasks cancel 17")]
pub(crate) struct PurgeArgs {
    /// Its id
    id: String,
    /// Save its stored form in this file first [default: ./weaver-task-ID.json]
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Do not ask before a task is removed that has not ended or cannot be read
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &PurgeArgs) -> Result<Exit, Failure> {
    let (client, namespace) = (&remote.client, remote.namespace.as_str());
    let raw = client.raw_task(namespace, &args.id).await?;
    let file = args.save.clone().unwrap_or_else(|| PathBuf::from(format!("weaver-task-{}.json", raw.id)));
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
        .answer(&answer, || format!("{} is removed. Its stored form is saved in {shown}.\n", raw.id))?;
    Ok(Exit::Done)
}

fn check_free(file: &Path) -> Result<(), Failure> {
    // A link that leads nowhere is there too.
    if fs::symlink_metadata(file).is_ok() {
        let message = format!("{} is there already, and nothing was removed", file.display());
        return Err(Failure::new(Exit::Refused, message).next("name another file with --save"));
    }
    Ok(())
}

/// Asks the person in front of the terminal; without one, `--yes` has to be said.
fn confirm(raw: &RawTask) -> Result<(), Failure> {
    let state = raw.state.as_deref().unwrap_or("unknown");
    let what = match &raw.unreadable {
        Some(why) => format!("task {} of namespace `{}` (state {state}; {why})", raw.id, raw.namespace),
        None => {
            format!("task {} of namespace `{}`, which has not ended (state {state})", raw.id, raw.namespace)
        }
    };
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Refused, format!("remove {what}: this was not confirmed"))
            .next("say --yes, or run it on a terminal"));
    }
    eprint!("remove {what}? Type yes: ");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line); // What cannot be read is not `yes`.
    if line.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "not confirmed: nothing was removed").next("type `yes`, or say --yes"))
}

/// On the disk before the task is removed; never over a file that is there. Payloads are the owner's alone.
fn save(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io(file, &error);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).and_then(|()| {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all())
    });
    written.map_err(|error| {
        let _ = fs::remove_file(file); // Half a copy is none; the failure itself is told.
        failed(error)
    })
}

/// A task that is there as before needs no copy. Where that is not known, the copy may be the last there is.
fn not_removed(error: ClientError, file: &Path, raw: &RawTask) -> Failure {
    if matches!(&error, ClientError::Refused(problem) if problem.status < 500) {
        let _ = fs::remove_file(file); // It is in the way of the next try, and says so itself.
        return Failure::from(error);
    }
    let Failure { exit, message, .. } = Failure::from(error);
    let shown = file.display();
    let message = format!("{message}; whether task {} was removed is not known", raw.id);
    let next = format!("look with `weaver tasks show {}`; its stored form is saved in {shown}", raw.id);
    Failure::new(exit, message).next(next)
}
