//! `weaver store export`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use crate::cli::StoreArgs;
use crate::cli::store::StoreTask;
use crate::exit::{Exit, Failure};
use crate::output::Progress;
use crate::wiring::{DirectoryStore, IfMissing};

const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver store export tasks.jsonl\n  weaver store export - | gzip > tasks.jsonl.gz\n\n\
    The file appears when it is complete."
)]
pub(crate) struct ExportArgs {
    /// Output file; `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

pub(crate) async fn run(task: &StoreTask, args: &ExportArgs) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("exporting {}", task.url));
    let counted = Arc::clone(&progress);
    if args.file.as_os_str() == "-" {
        let work = move |store: &DirectoryStore| {
            let out = Counted { inner: io::stdout().lock(), progress: counted };
            Ok(store.export(BufWriter::with_capacity(BUFFER_BYTES, out))?)
        };
        task.on_store(IfMissing::Refuse, &progress, work).await?;
        return Ok(Exit::Done);
    }
    let (file, shown) = (args.file.clone(), args.file.display().to_string());
    if file.exists() && !args.force {
        return Err(Failure::new(Exit::Refused, format!("{shown} already exists"))
            .next("use another file, or replace it with --force"));
    }
    let work = move |store: &DirectoryStore| {
        write_atomically(&file, |out| {
            let out = Counted { inner: out, progress: counted };
            Ok(store.export(BufWriter::with_capacity(BUFFER_BYTES, out))?)
        })
    };
    let exported = task.on_store(IfMissing::Refuse, &progress, work).await?;
    let answer = json!({"store": task.url.to_string(), "file": shown, "lines": exported.lines, "tasks": exported.tasks});
    task.context.output.answer(&answer, || {
        format!("Exported {} tasks of {} to {shown}, {} lines.\n", exported.tasks, task.url, exported.lines)
    })?;
    Ok(Exit::Done)
}

/// Atomic: writes to a temporary file, fsyncs and renames it.
fn write_atomically<T>(file: &Path, write: impl FnOnce(&File) -> Result<T, Failure>) -> Result<T, Failure> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let failed = |error: io::Error| Failure::io(file, &error);
    // As private as the store itself.
    let out = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
    let out = out.map_err(failed)?;
    out.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let written = write(&out).and_then(|answer| {
        out.sync_all().and_then(|()| fs::rename(&part, file)).map_err(failed)?;
        Ok(answer)
    });
    if written.is_err() {
        // Best effort; the error is returned.
        let _ = fs::remove_file(&part);
    }
    written
}

/// Counts the bytes for the progress display.
struct Counted<W> {
    inner: W,
    progress: Arc<Progress>,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.progress.add_bytes(count);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
