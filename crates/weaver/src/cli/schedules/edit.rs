//! `weaver schedules add` and `edit`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use weaver_api::{PutSchedule, Schedule, ScheduleSpec, TaskTemplate};

use super::spec::SpecArgs;
use crate::cli::enqueue::read_payload;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::instant;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    weaver schedules add nightly http '{\"url\": \"https://example.org/hook\"}' --cron 'daily at 02:30' --tz Europe/Berlin\n  \
    weaver schedules add sweep exec '{\"command\": \"sweep\"}' --cron 'every 5m' --concurrency forbid\n  \
    weaver schedules add receipt mail --event order.paid\n  \
    weaver schedules add nightly --file nightly.json")]
pub(crate) struct AddArgs {
    /// Name of the schedule
    name: String,
    /// Task type of its tasks: selects the handler
    #[arg(required_unless_present = "file")]
    task_type: Option<String>,
    /// Payload of its tasks: JSON, `@file`, or `-` for standard input [default: for events, the event]
    payload: Option<String>,
    /// Add it disabled
    #[arg(long)]
    disabled: bool,
    /// Read the whole `spec` from a JSON file, as printed by `weaver schedules show --output json`; `-` for
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task_type", "payload"])]
    file: Option<String>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules edit nightly --cron 'daily at 03:00'\n  \
    weaver schedules edit nightly\n  weaver schedules edit nightly --file nightly.json --if-version 3\n\n\
    If another client changed it meanwhile, the command is refused and nothing is changed.")]
pub(crate) struct EditArgs {
    /// Name of the schedule
    name: String,
    /// New task type
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<String>,
    /// New payload: JSON, `@file`, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Read the whole `spec` from a JSON file; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task_type", "payload"])]
    file: Option<String>,
    /// Only if the schedule is still at this version [default: the version that was read]
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
}

pub(super) async fn add(remote: &Remote<'_>, args: AddArgs) -> Result<Exit, Failure> {
    let mut spec = match (&args.file, args.task_type) {
        (Some(file), _) => {
            let mut spec = from_file(file)?;
            args.spec.apply(&mut spec)?;
            spec
        }
        (None, task_type) => {
            let payload = args.payload.as_deref().map(read_payload).transpose()?;
            let trigger = args.spec.trigger().ok_or_else(|| {
                Failure::new(Exit::Usage, "the schedule has no trigger")
                    .next("give --cron EXPR or --event TYPE")
            })?;
            let task_type = task_type.unwrap_or_default();
            let task = TaskTemplate { task_type, payload, ..TaskTemplate::default() };
            let mut spec = ScheduleSpec {
                enabled: true,
                trigger,
                task,
                concurrency_policy: Default::default(),
                misfire: Default::default(),
                dispatch: Default::default(),
            };
            args.spec.apply(&mut spec)?;
            spec
        }
    };
    spec.enabled &= !args.disabled;
    put(remote, &args.name, PutSchedule { expected_version: 0, spec }, "added").await
}

pub(super) async fn edit(remote: &Remote<'_>, args: EditArgs) -> Result<Exit, Failure> {
    let found = remote.client.schedule(&remote.namespace, &args.name).await?;
    let expected_version = args.if_version.unwrap_or(found.version);
    let is_given = args.spec.is_given() || args.task_type.is_some() || args.payload.is_some();
    let mut spec = match &args.file {
        Some(file) => from_file(file)?,
        None if is_given => found.spec.clone(),
        None => in_editor(&found)?,
    };
    args.spec.apply(&mut spec)?;
    if let Some(task_type) = args.task_type {
        spec.task.task_type = task_type;
    }
    if let Some(payload) = &args.payload {
        spec.task.payload = Some(read_payload(payload)?);
    }
    if spec == found.spec {
        remote.context.output.answer(&found, || "Nothing changed.\n".to_owned())?;
        return Ok(Exit::Done);
    }
    put(remote, &args.name, PutSchedule { expected_version, spec }, "changed").await
}

async fn put(remote: &Remote<'_>, name: &str, put: PutSchedule, done: &'static str) -> Result<Exit, Failure> {
    let schedule = remote.client.put_schedule(&remote.namespace, name, &put).await?;
    remote.context.output.answer(&schedule, || {
        let next = match (&schedule.next_run_at, schedule.spec.enabled) {
            (Some(at), _) => format!("next run at {}", instant(*at)),
            (None, true) => format!("runs {}", super::trigger_text(&schedule.spec.trigger)),
            (None, false) => "it is disabled".to_owned(),
        };
        format!("Schedule {} is {done}, version {}; {next}.\n", schedule.name, schedule.version)
    })?;
    Ok(Exit::Done)
}

fn from_file(file: &str) -> Result<ScheduleSpec, Failure> {
    let text = if file == "-" {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::new(Exit::Failed, format!("standard input: {error}")))?;
        text
    } else {
        std::fs::read_to_string(file).map_err(|error| Failure::io(Path::new(file), &error))?
    };
    parse(file, &text)
}

fn parse(place: &str, text: &str) -> Result<ScheduleSpec, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(Exit::Usage, format!("{place} is not a schedule: {error}"))
            .next("`weaver schedules show NAME --output json` prints one, under `spec`")
    })
}

fn in_editor(found: &Schedule) -> Result<ScheduleSpec, Failure> {
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor = editor.filter(|editor| !editor.trim().is_empty()).ok_or_else(|| {
        Failure::new(Exit::Usage, "nothing to change")
            .next("give a flag such as --cron or --file, or set EDITOR")
    })?;
    let file = Draft::new(&serde_json::to_string_pretty(&found.spec).unwrap_or_default())?;
    let done = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&file.0).status();
    match done {
        Ok(status) if status.success() => {}
        Ok(status) => {
            let message = format!("`{editor}` failed with {status}; nothing was changed");
            return Err(Failure::new(Exit::Failed, message));
        }
        Err(error) => {
            return Err(Failure::new(Exit::Failed, format!("`{editor}` could not be started: {error}")));
        }
    }
    let text = std::fs::read_to_string(&file.0).map_err(|error| Failure::io(&file.0, &error))?;
    parse("the edited text", &text)
}

/// A temporary file, removed on drop.
struct Draft(PathBuf);

impl Draft {
    fn new(text: &str) -> Result<Self, Failure> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = std::env::temp_dir().join(format!("weaver-schedule-{}.json", std::process::id()));
        // Created new, mode 0600: payloads may hold secrets.
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        written.map_err(|error| Failure::io(&path, &error))?;
        Ok(Self(path))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // Best effort: the file is private and temporary.
    }
}
