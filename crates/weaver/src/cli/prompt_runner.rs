//! `weaver runner`: runs the prompts of a project with an agent's command, one at a time.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use weaver::runtime::{LocalSource, WorkSource, Worker};
use weaver_agent::command::AgentCommand;
use weaver_agent::{Profile, RunnerError, RunnerOptions};
use weaver_client::RemoteSource;

use crate::cli::project::{self, ChosenNamespace};
use crate::cli::store::StoreTask;
use crate::cli::{Context, Given, StoreArgs, confinement, remote, worker};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, start_log};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver runner -- claude -p\n  weaver runner --profile codex --project-root ~/src/app\n  \
    weaver runner --store ./weaver-data --namespace app -- aider --yes-always --message-file {prompt_file}\n\n\
    The prompt is passed on the command's standard input, or in a file: `{prompt_file}` in an argument is its path.\n\
    Exit code 0: the prompt succeeded, and the end of standard output is its result. Any other: it is dead.\n\
    By default a prompt runs at most once: if it is interrupted (the runner is killed, disconnected or stopped), it is dead.\n\
    Profiles are in weaver.toml: [profiles.NAME] with command = [\"claude\", \"-p\"] and, to pass environment variables,\n\
    pass_env = [\"NAME\"]. The agent gets PATH, HOME, the locale, WEAVER_TASK_ID and other variables of the task, and nothing else."
)]
pub(crate) struct RunnerArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Server URL, or unix:PATH of its socket
    /// [default: this user's server on this machine]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    server: Option<String>,
    /// Namespace of the prompts [default: derived from the project's path]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Project directory, in which the agent runs
    #[arg(long, value_name = "DIR", default_value = ".")]
    project_root: PathBuf,
    /// Profile of weaver.toml whose command is run
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    profile: Option<String>,
    /// Name of the runner, unique among live runners [default: random]
    #[arg(long)]
    name: Option<String>,
    /// Poll and heartbeat interval [default: 1s]
    #[arg(long, value_name = "SPAN")]
    poll: Option<String>,
    /// Lease TTL: if the lease cannot be renewed for this long, the prompt is stopped [default: 120s]
    #[arg(long, value_name = "SPAN")]
    lease: Option<String>,
    /// Grace period for the running prompt at shutdown [default: 30s]
    #[arg(long, value_name = "SPAN")]
    grace: Option<String>,
    /// Time between SIGTERM and SIGKILL for the agent's command [default: 5s]
    #[arg(long, value_name = "SPAN")]
    kill_grace: Option<String>,
    /// Log level: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// The agent's command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl RunnerArgs {
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        vec![
            self.store.setting(),
            (keys::SERVER, self.server.as_ref()),
            (keys::NAMESPACE, self.namespace.as_ref()),
            (keys::RUNNER_POLL, self.poll.as_ref()),
            (keys::RUNNER_LEASE, self.lease.as_ref()),
            (keys::RUNNER_GRACE, self.grace.as_ref()),
            (keys::RUNNER_KILL_GRACE, self.kill_grace.as_ref()),
            (keys::LOG, self.log.as_ref()),
        ]
    }
}

pub(crate) async fn run(args: RunnerArgs, context: Context) -> Result<Exit, Failure> {
    start_log(&context.config);
    let (profile, origin) = profile(&args, &context.config)?;
    let namespace = project::namespace(&context.config, &args.project_root)?;
    let options = options(&args, profile, &namespace, &context.config)?;
    let command = options.command.to_string();
    let (source, place, context) = source(&args, context).await?;
    let worker = weaver_agent::runner(source, &context.clock, options)?;
    print_banner(&worker, &args, &namespace, &format!("{command}  ({origin})"), &place, &context)?;
    let summary = worker::until_shutdown(worker).await?;
    worker::print_summary(&summary, &context)?;
    Ok(Exit::Done)
}

/// The command to run, and where it is configured.
fn profile(args: &RunnerArgs, config: &Config) -> Result<(Profile, String), Failure> {
    let Some(name) = &args.profile else {
        let profile = Profile {
            command: args.command.clone(),
            pass_env: Default::default(),
            confine: Default::default(),
        };
        return Ok((profile, "command line".to_owned()));
    };
    let (profiles, origin) = &config.profiles;
    let Some(profile) = profiles.get(name) else {
        let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
        let message = format!("profile `{name}` not found");
        return Err(Failure::new(Exit::NotFound, message).next(match known.is_empty() {
            true => {
                format!("add it to weaver.toml: [profiles.{name}] with command = [\"program\", \"argument\"]")
            }
            false => format!("profiles in {origin}: {}", known.join(", ")),
        }));
    };
    Ok((profile.clone(), format!("profile `{name}` of {origin}")))
}

fn options(
    args: &RunnerArgs,
    profile: Profile,
    namespace: &ChosenNamespace,
    config: &Config,
) -> Result<RunnerOptions, Failure> {
    let command = AgentCommand::new(&profile.command).map_err(RunnerError::from)?;
    Ok(RunnerOptions {
        name: args.name.clone(),
        pass_env: profile.pass_env,
        poll: config.span(keys::RUNNER_POLL),
        lease: config.span(keys::RUNNER_LEASE),
        grace: config.span(keys::RUNNER_GRACE),
        kill_grace: config.span(keys::RUNNER_KILL_GRACE),
        log_max_bytes: config.count(keys::RUNNER_LOG_MAX_BYTES) as usize,
        isolation: confinement::of_agents(config, profile.confine, &args.project_root)?,
        ..RunnerOptions::new(namespace.name.clone(), &args.project_root, command)
    })
}

/// The source of prompts, with its name for the banner.
async fn source(
    args: &RunnerArgs,
    context: Context,
) -> Result<(Arc<dyn WorkSource>, String, Context), Failure> {
    if args.store.store.is_none() {
        let remote::Server { client, address } = remote::connect(&context.config)?;
        let place = format!("server {address}");
        return Ok((Arc::new(RemoteSource::new(client)), place, context));
    }
    let task = StoreTask::new(context)?;
    let place = format!("store {}", task.url());
    let store = task.open_to_work(&Progress::new("opening the store")).await?;
    Ok((Arc::new(LocalSource::new(store)), place, task.context))
}

fn print_banner(
    worker: &Worker,
    args: &RunnerArgs,
    namespace: &ChosenNamespace,
    command: &str,
    place: &str,
    context: &Context,
) -> Result<(), Failure> {
    let (name, root) = (worker.name(), project::canonical(&args.project_root)?);
    let answer = json!({
        "runner": name, "namespace": namespace.name, "because": namespace.because,
        "project_root": root, "command": command, "prompts": place,
    });
    context.output.answer(&answer, || {
        format!(
            "Runner {name} runs prompts in {}\n  namespace  {}  ({})\n  command    {command}\n  source     {place}\n  \
             try        weaver prompt -n {} \"What is this project about?\" --follow\n  stop       Ctrl-C\n",
            root.display(),
            namespace.name,
            namespace.because,
            namespace.name,
        )
    })
}

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Self {
        Self::new(Exit::Usage, error.to_string()).next("see `weaver runner --help`")
    }
}
