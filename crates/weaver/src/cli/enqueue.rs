//! `weaver enqueue`.

use std::io::Read;
use std::time::Duration;

use clap::Args;
use weaver::core::task::TypeDefaults;
use weaver_api::{Json, NewTask};

use crate::cli::Context;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::cli::tasks::wait;
use crate::config::{keys, parse_span};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver enqueue http '{\"url\": \"https://example.org/hook\"}'\n  \
    weaver enqueue report @report.json --queue slow --delay 5m\n  \
    echo '{\"to\": \"ada\"}' | weaver enqueue mail - --key welcome-ada --wait\n\n\
    With --wait the exit code is that of `weaver tasks wait`: 7 if the task is dead or cancelled, 4 after --wait-timeout.")]
pub(crate) struct EnqueueArgs {
    /// Task type: selects the handler
    task_type: String,
    /// Payload: JSON, `@file`, or `-` for standard input
    payload: Option<String>,
    /// Queue [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Priority from 0 (most urgent) to 9 [default: 5]
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Delay before the first attempt: 30s, 5m, 12h [default: none]
    #[arg(long, value_name = "SPAN", value_parser = span_ms)]
    delay: Option<u64>,
    /// Timeout of each attempt: 30s, 5m [default: none]
    #[arg(long, value_name = "SPAN", value_parser = span_ms)]
    timeout: Option<u64>,
    #[arg(long, value_name = "COUNT", help = attempts_help())]
    max_attempts: Option<u32>,
    /// Idempotency key: a second enqueue with the same key returns the existing task
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Serial key: tasks with the same key run one at a time, in order
    #[arg(long, value_name = "KEY")]
    serial_key: Option<String>,
    /// Task group the task belongs to
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Label as NAME=VALUE; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Wait for the task to end and print its result
    #[arg(long)]
    wait: bool,
    /// Wait at most this long: 30s, 5m, 12h [default: no limit]
    #[arg(long, value_name = "SPAN", value_parser = wait::span, requires = "wait")]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(args: EnqueueArgs, context: &Context) -> Result<Exit, Failure> {
    let payload = args.payload.as_deref().map(read_payload).transpose()?;
    let remote = Remote::new(context)?;
    let task = NewTask {
        task_type: args.task_type,
        namespace: Some(context.config.text(keys::NAMESPACE).to_owned()),
        queue: args.queue,
        payload,
        priority: args.priority,
        delay_ms: args.delay,
        timeout_ms: args.timeout,
        max_attempts: args.max_attempts,
        idempotency_key: args.key,
        serial_key: args.serial_key,
        task_group_id: args.group,
        labels: args.labels.into_iter().collect(),
        ..NewTask::default()
    };
    let enqueued = remote.client.enqueue(task).await?;
    if args.wait {
        wait::warn_if_unserved(&remote, &enqueued.id).await;
        return wait::until_ended(&remote, &enqueued.id, args.wait_timeout, wait::result).await;
    }
    context.output.answer(&enqueued, || match enqueued.existing {
        true => format!("{} (existing task)\n", enqueued.id),
        false => format!("{}\n", enqueued.id),
    })?;
    Ok(Exit::Done)
}

/// The JSON text is kept verbatim, so that numbers keep their digits.
pub(crate) fn read_payload(text: &str) -> Result<Json, Failure> {
    let (place, text) = match text.strip_prefix('@') {
        _ if text == "-" => {
            let mut read = String::new();
            let done = std::io::stdin().read_to_string(&mut read);
            done.map_err(|error| Failure::new(Exit::Failed, format!("standard input: {error}")))?;
            ("standard input".to_owned(), read)
        }
        Some(path) => {
            let read = std::fs::read_to_string(path);
            (path.to_owned(), read.map_err(|error| Failure::io(std::path::Path::new(path), &error))?)
        }
        None => ("payload".to_owned(), text.to_owned()),
    };
    Json::from_text(text).map_err(|error| {
        Failure::new(Exit::Usage, format!("{place} is not valid JSON: {error}")).next(
            "put strings in double quotes, and the whole argument in single quotes for the shell: '\"text\"'",
        )
    })
}

/// The help of `--max-attempts`, with its default.
pub(crate) fn attempts_help() -> String {
    let default = TypeDefaults::in_words(|of| of.max_attempts);
    format!("Failed attempts before the task is dead [default: {default}]")
}

pub(crate) fn span_ms(text: &str) -> Result<u64, String> {
    let span = parse_span(text).ok_or("give a number and a unit: 500ms, 30s, 5m, 12h or 30d")?;
    u64::try_from(span.as_millis()).map_err(|_| "the duration is too long".to_owned())
}

pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give a name and a value: team=mail")?;
    Ok((name.to_owned(), value.to_owned()))
}
