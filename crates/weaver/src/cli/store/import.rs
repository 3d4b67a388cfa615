//! `weaver store import`.

use std::fs::File;
use std::io::{self, BufReader, Read};
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
#[command(after_help = "Examples:\n  weaver store import tasks.jsonl --store ./new-data\n  \
    gunzip -c tasks.jsonl.gz | weaver store import -\n\n\
    Creates the store if it does not exist. Existing records are left unchanged, so an interrupted import can be repeated.")]
pub(crate) struct ImportArgs {
    /// Input file; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

pub(crate) async fn run(task: &StoreTask, args: &ImportArgs) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("importing into {}", task.url));
    // Before the store is created: a mistyped name must leave nothing behind.
    let input = open(&args.file, &progress)?;
    let runtime = tokio::runtime::Handle::current();
    let work = move |store: &DirectoryStore| Ok(runtime.block_on(store.import(input))?);
    let imported =
        task.on_store(IfMissing::Make, &progress, work).await.map_err(|failure| match failure.exit {
            Exit::Failed => {
                Failure { message: format!("{}: {}", args.file.display(), failure.message), ..failure }
            }
            _ => failure,
        })?;
    let answer = json!({"store": task.url.to_string(), "lines": imported.lines, "added": imported.added});
    task.context.output.answer(&answer, || {
        let known = imported.lines.saturating_sub(imported.added + 2);
        format!("{}: {} records imported, {known} already existed.\n", task.url, imported.added)
    })?;
    Ok(Exit::Done)
}

type Input = BufReader<Counted<Box<dyn Read + Send>>>;

fn open(path: &Path, progress: &Arc<Progress>) -> Result<Input, Failure> {
    let inner: Box<dyn Read + Send> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
        progress.expect_bytes(file.metadata().map_err(|error| Failure::io(path, &error))?.len());
        Box::new(file)
    };
    let counted = Counted { inner, progress: Arc::clone(progress) };
    Ok(BufReader::with_capacity(BUFFER_BYTES, counted))
}

/// Counts the bytes for the progress display.
struct Counted<R> {
    inner: R,
    progress: Arc<Progress>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.progress.add_bytes(count);
        Ok(count)
    }
}
