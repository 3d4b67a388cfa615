//! A runner: a worker that does prompts, one at a time.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::Clock;
use weaver_core::name::Namespace;
use weaver_process::Isolation;
use weaver_runtime::{BuildError, Registry, WorkSource, Worker};

use crate::command::{AgentCommand, CommandError};
use crate::environment::{self, NotPassed};
use crate::handler::{Agent, PromptHandler};
use crate::project::Project;

/// Between two polls, and two heartbeats, unless asked otherwise (seed 000).
pub const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// A runner's leases last as long as it may be silent (seed 000): a blip of the network does not end an
/// hour's work.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(120);
/// How long a prompt may go on after the runner was told to stop.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(30);
/// How long an agent may take to end after SIGTERM.
pub const KILL_GRACE_DEFAULT: Duration = Duration::from_secs(5);
/// How much of an agent's output goes into the attempt's log.
pub const LOG_MAX_BYTES_DEFAULT: usize = 4 * 1024 * 1024;

/// How long the worker waits for a handler beyond the time its processes may take to end.
const STOP_MARGIN: Duration = Duration::from_secs(2);

/// What a runner should be.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// Its name, unique among those alive; drawn if not given.
    pub name: Option<String>,
    /// Whose prompts it does.
    pub namespace: Namespace,
    /// Where it does them.
    pub project_root: PathBuf,
    /// With what.
    pub command: AgentCommand,
    /// Variables of its environment that the agent gets besides what every program needs.
    pub pass_env: BTreeSet<String>,
    /// Between two polls and two heartbeats.
    pub poll: Duration,
    /// How long its leases last.
    pub lease: Duration,
    /// How long a prompt may go on after the runner was told to stop.
    pub grace: Duration,
    /// How long an agent may take to end after SIGTERM.
    pub kill_grace: Duration,
    /// How many bytes of an agent's output the attempt's log keeps: three quarters of its beginning, a
    /// quarter of its end.
    pub log_max_bytes: usize,
    /// What agents may see and do besides working on the project, and what enforces that. The default refuses
    /// to run.
    pub isolation: Isolation,
}

impl RunnerOptions {
    /// A runner of a project with a command, and the defaults.
    pub fn new(namespace: Namespace, project_root: impl Into<PathBuf>, command: AgentCommand) -> Self {
        Self {
            name: None,
            namespace,
            project_root: project_root.into(),
            command,
            pass_env: BTreeSet::new(),
            poll: POLL_DEFAULT,
            lease: LEASE_DEFAULT,
            grace: GRACE_DEFAULT,
            kill_grace: KILL_GRACE_DEFAULT,
            log_max_bytes: LOG_MAX_BYTES_DEFAULT,
            isolation: Isolation::default(),
        }
    }
}

/// Why a runner cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// Its command is none.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A variable may not be passed on.
    #[error(transparent)]
    Environment(#[from] NotPassed),
    /// The project is not there.
    #[error("the project {}: {error}; name a directory with --project-root", path.display())]
    Project {
        /// As it was given.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Its agents cannot be confined.
    #[error("agents cannot be confined: {0}")]
    Confinement(String),
    /// It runs as root, and its agents would be a user who cannot work on the project.
    #[error(
        "the project {} belongs to user {owner}, and its agent would run as user {user}, who cannot change it; give it to that \
         user (chown -R), or use `confine.mode = \"namespaces\"`, which maps one user to the other",
        path.display()
    )]
    ForeignProject {
        /// Where it is.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who the agent would be.
        user: u32,
    },
    /// A number or a name is out of its range.
    #[error(transparent)]
    Worker(#[from] BuildError),
}

/// A worker of one: it takes a prompt, has the agent do it, and takes the next. Beside that it beats at every
/// tick.
///
/// # Errors
/// If the options make no sense here.
pub fn runner(
    source: Arc<dyn WorkSource>,
    clock: &Arc<dyn Clock>,
    options: RunnerOptions,
) -> Result<Worker, RunnerError> {
    let project = Project::open(&options.project_root)
        .map_err(|error| RunnerError::Project { path: options.project_root.clone(), error })?;
    let root = project.root().display().to_string();
    let agent = Agent {
        command: options.command,
        project,
        inherited: environment::inherited(std::env::vars_os(), &options.pass_env)?,
        log_max_bytes: options.log_max_bytes,
        kill_grace: options.kill_grace,
        isolation: options.isolation,
    };
    check(&agent)?;
    let registry = Registry::new().handler(PromptHandler::new(agent, Arc::clone(clock)));
    let worker = Worker::builder(source, Arc::clone(clock))
        .name(options.name.unwrap_or_else(drawn_name))
        .registry(registry)
        .namespaces([options.namespace.to_string()])
        .concurrency(1)
        .nothing_ahead()
        .lease_ttl(options.lease)
        .poll_every(options.poll)
        .beat_every(options.poll)
        .grace(options.grace)
        .stop_grace(options.kill_grace.saturating_add(STOP_MARGIN))
        .project_root(root);
    Ok(worker.build()?)
}

/// What would keep every prompt from being run is said before the first one is taken.
fn check(agent: &Agent) -> Result<(), RunnerError> {
    agent.confinement().map_err(RunnerError::Confinement)?;
    let maps_owners = agent.isolation.confiner.as_ref().is_some_and(|confiner| confiner.maps_owners());
    match (agent.user(), agent.project.owner()) {
        (Some(user), Some(owner)) if user.uid != owner.uid && !maps_owners => {
            let path = agent.project.root().to_owned();
            Err(RunnerError::ForeignProject { path, owner: owner.uid, user: user.uid })
        }
        _ => Ok(()),
    }
}

fn drawn_name() -> String {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    format!("runner-{:08x}", u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use weaver_core::ports::ALIVE_WITHIN;

    use super::*;

    #[test]
    fn the_defaults_are_the_seeds() {
        let command = AgentCommand::new(&["agent".to_owned()]).unwrap();
        let options = RunnerOptions::new(Namespace::default(), ".", command);
        assert_eq!(options.poll, Duration::from_millis(1000));
        assert_eq!(options.lease, Duration::from_secs(120));
        assert_eq!(options.lease, ALIVE_WITHIN);
    }
}
