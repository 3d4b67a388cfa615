//! `weaver runner`: has an agent do the prompts of a project, one at a time.

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
    The prompt is on the command's standard input, or in a file: `{prompt_file}` in an argument is its path.\n\
    Exit code 0: the prompt is done, and the end of standard output its result. Anything else: it is an error.\n\
    A prompt is run once. If it is cut off (the runner is killed, cut off or stopped), it is an error; nothing runs it again.\n\
    Profiles are in weaver.toml: [profiles.NAME] with command = [\"claude\", \"-p\"] and, if the agent needs a variable of\n\
    yours, pass_env = [\"NAME\"]. It gets PATH, HOME, the locale and WEAVER_TASK_ID and its like, and no other."
)]
pub(crate) struct RunnerArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Work for the server at this address, or unix:PATH of its socket
    /// [default: this user's server on this machine]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    server: Option<String>,
    /// The namespace of its prompts [default: made of the project's path]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// The directory it works in
    #[arg(long, value_name = "DIR", default_value = ".")]
    project_root: PathBuf,
    /// Run the command of this profile of weaver.toml
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    profile: Option<String>,
    /// Its name, unique among runners; drawn if not given
    #[arg(long)]
    name: Option<String>,
    /// Between two polls, and two heartbeats [default: 1s]
    #[arg(long, value_name = "SPAN")]
    poll: Option<String>,
    /// How long its leases last: out of touch for longer, it ends its prompt [default: 120s]
    #[arg(long, value_name = "SPAN")]
    lease: Option<String>,
    /// How long a prompt may go on after a stop was asked for [default: 30s]
    #[arg(long, value_name = "SPAN")]
    grace: Option<String>,
    /// How long a command may take to end after SIGTERM [default: 5s]
    #[arg(long, value_name = "SPAN")]
    kill_grace: Option<String>,
    /// How much to log [default: info]
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
    let (profile, whence) = profile(&args, &context.config)?;
    let namespace = project::namespace(&context.config, &args.project_root)?;
    let options = options(&args, profile, &namespace, &context.config)?;
    let command = options.command.to_string();
    let (source, place, context) = source(&args, context).await?;
    let worker = weaver_agent::runner(source, &context.clock, options)?;
    tell(&worker, &args, &namespace, &format!("{command}  ({whence})"), &place, &context)?;
    let summary = worker::until_told(worker).await?;
    worker::tell(&summary, &context)?;
    Ok(Exit::Done)
}

/// What to run, and who said so.
fn profile(args: &RunnerArgs, config: &Config) -> Result<(Profile, String), Failure> {
    let Some(name) = &args.profile else {
        let profile = Profile {
            command: args.command.clone(),
            pass_env: Default::default(),
            confine: Default::default(),
        };
        return Ok((profile, "the command line".to_owned()));
    };
    let (profiles, origin) = &config.profiles;
    let Some(profile) = profiles.get(name) else {
        let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
        let message = format!("there is no profile `{name}`");
        return Err(Failure::new(Exit::NotFound, message).next(match known.is_empty() {
            true => format!(
                "write it into weaver.toml: [profiles.{name}] with command = [\"program\", \"argument\"]"
            ),
            false => format!("these are in {origin}: {}", known.join(", ")),
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

/// Where prompts come from, in words too.
async fn source(
    args: &RunnerArgs,
    context: Context,
) -> Result<(Arc<dyn WorkSource>, String, Context), Failure> {
    if args.store.store.is_none() {
        let remote::Server { client, address } = remote::connect(&context.config)?;
        let place = format!("the server at {address}");
        return Ok((Arc::new(RemoteSource::new(client)), place, context));
    }
    let task = StoreTask::new(context)?;
    let place = format!("the store {}", task.url());
    let store = task.open_to_work(&Progress::new("opening the store")).await?;
    Ok((Arc::new(LocalSource::new(store)), place, task.context))
}

fn tell(
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
            "Runner {name} works in {}\n  namespace  {}  ({})\n  command    {command}\n  prompts    of {place}\n  \
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
