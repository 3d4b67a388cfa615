//! `weaver prompt`: enqueues a prompt for a runner.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Deserialize;
use weaver::core::queue::QueueExt;
use weaver::core::task::TypeDefaults;
use weaver_agent::prompt::{PROMPT_CONTENT_TYPE, PROMPT_TASK_TYPE};
use weaver_api::{Enqueued, Json, NewTask, Task};

use crate::cli::enqueue::span_ms;
use crate::cli::project::{self, ChosenNamespace};
use crate::cli::remote::Remote;
use crate::cli::store::StoreTask;
use crate::cli::tasks::{logs, wait};
use crate::cli::{Context, Given, StoreArgs};
use crate::config::keys;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, visible};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver prompt \"Add a test for the parser\"\n  weaver prompt --session fix-7 --wait \"Now run the tests\"\n  \
    git diff | weaver prompt --group review - --follow\n\n\
    The prompt goes to the runner of the project in the current directory (or --project-root), or of the given namespace.\n\
    Prompts of one session run one at a time, in order. By default a prompt runs at most once: see `weaver runner --help`.\n\
    With --wait it prints the agent's answer; exit code 7: the prompt is dead or cancelled."
)]
pub(crate) struct PromptArgs {
    /// Prompt text; `-` reads standard input
    text: String,
    /// Task group the prompt belongs to
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Session the prompt belongs to; prompts of a session run one at a time, in order
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Timeout of the agent: 30s, 5m [default: none]
    #[arg(long, value_name = "SPAN", value_parser = span_ms)]
    timeout: Option<u64>,
    /// Priority from 0 (most urgent) to 9 [default: 5]
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    #[arg(long, value_name = "COUNT", help = attempts_help())]
    max_attempts: Option<u32>,
    #[arg(long, value_name = "COUNT", help = losses_help())]
    max_losses: Option<u32>,
    /// Idempotency key: a second prompt with the same key returns the existing one
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Wait for the prompt to end and print the answer
    #[arg(long)]
    wait: bool,
    /// Follow the agent's output until the prompt ends
    #[arg(long, short)]
    follow: bool,
    /// Project directory, which selects the runner
    #[arg(long, value_name = "DIR", default_value = ".")]
    project_root: PathBuf,
    /// Namespace [default: derived from the project's path]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Server URL, or unix:PATH of its socket [default: this user's server on this machine]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    server: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

impl PromptArgs {
    pub(crate) fn given(&self) -> [Given<'_>; 3] {
        [
            self.store.setting(),
            (keys::SERVER, self.server.as_ref()),
            (keys::NAMESPACE, self.namespace.as_ref()),
        ]
    }
}

pub(crate) async fn run(args: PromptArgs, context: Context) -> Result<Exit, Failure> {
    let prompt = text(&args.text)?;
    let namespace = project::namespace(&context.config, &args.project_root)?;
    let (wait, follow) = (args.wait, args.follow);
    let on_store = args.store.store.is_some();
    let task = task(args, &prompt, &namespace)?;
    if namespace.is_derived && !context.output.is_json {
        eprintln!("namespace {}  ({})", namespace.name, namespace.because);
    }
    if on_store {
        if wait || follow {
            let message = "--wait and --follow need a server";
            return Err(Failure::new(Exit::Usage, message).next("omit --wait and --follow, or use --server"));
        }
        return enqueue_on_store(task, context).await;
    }
    let remote = Remote { namespace: namespace.name.to_string(), ..Remote::new(&context)? };
    let enqueued = remote.client.enqueue(task).await?;
    if wait || follow {
        wait::warn_if_unserved(&remote, &enqueued.id).await;
    }
    if follow {
        logs::follow(&remote, &enqueued.id).await?;
        return wait::until_ended(&remote, &enqueued.id, None, |_| String::new()).await;
    }
    if wait {
        return wait::until_ended(&remote, &enqueued.id, None, answer).await;
    }
    report(&enqueued, &context)
}

fn attempts_help() -> String {
    format!("Failed attempts before the prompt is dead [default: {}]", TypeDefaults::PROMPT.max_attempts)
}

fn losses_help() -> String {
    format!("Lost attempts that the prompt survives [default: {}]", TypeDefaults::PROMPT.max_losses)
}

fn text(given: &str) -> Result<String, Failure> {
    let mut read = String::new();
    if given == "-" {
        std::io::stdin().read_to_string(&mut read).map_err(|error| {
            Failure::new(Exit::Usage, format!("standard input: {error}")).next("a prompt must be UTF-8 text")
        })?;
    } else {
        given.clone_into(&mut read);
    }
    if read.trim().is_empty() {
        return Err(
            Failure::new(Exit::Usage, "the prompt is empty").next("give the instructions for the agent")
        );
    }
    Ok(read)
}

fn task(args: PromptArgs, prompt: &str, namespace: &ChosenNamespace) -> Result<NewTask, Failure> {
    let payload = Json::of(prompt)
        .map_err(|error| Failure::new(Exit::Failed, format!("the prompt cannot be encoded: {error}")))?;
    Ok(NewTask {
        task_type: PROMPT_TASK_TYPE.to_owned(),
        namespace: Some(namespace.name.to_string()),
        payload: Some(payload),
        content_type: Some(PROMPT_CONTENT_TYPE.to_owned()),
        task_group_id: args.group,
        session_id: args.session,
        timeout_ms: args.timeout,
        priority: args.priority,
        max_attempts: args.max_attempts,
        max_losses: args.max_losses,
        idempotency_key: args.key,
        ..NewTask::default()
    })
}

async fn enqueue_on_store(task: NewTask, context: Context) -> Result<Exit, Failure> {
    let refused = |error: String| Failure::new(Exit::Usage, error).next("see `weaver prompt --help`");
    let task =
        task.try_into().map_err(|invalid: weaver::core::error::Invalid| refused(invalid.to_string()))?;
    let on = StoreTask::new(context)?;
    let store = on.open_to_work(&Progress::new("opening the store")).await?;
    let stored = Arc::clone(&store).enqueue(task).await?;
    let enqueued = Enqueued {
        id: stored.key.shown_id().to_string(),
        namespace: stored.key.namespace.to_string(),
        existing: stored.existing,
    };
    report(&enqueued, &on.context)
}

fn report(enqueued: &Enqueued, context: &Context) -> Result<Exit, Failure> {
    context.output.answer(enqueued, || match enqueued.existing {
        true => format!("{} (existing prompt)\n", enqueued.id),
        false => format!("{}\n", enqueued.id),
    })?;
    Ok(Exit::Done)
}

/// The agent's answer, from the task's result.
fn answer(task: &Task) -> String {
    #[derive(Deserialize)]
    struct Kept {
        output: String,
    }
    let kept = task.result.as_ref().and_then(|result| result.decode::<Kept>().ok());
    let Some(Kept { output }) = kept.filter(|kept| !kept.output.is_empty()) else { return String::new() };
    // On a terminal, control characters are made visible; a file gets the answer verbatim.
    let is_terminal = std::io::stdout().is_terminal();
    let lines = output.lines().map(|line| if is_terminal { visible(line) } else { line.to_owned() });
    lines.map(|line| line + "\n").collect()
}
