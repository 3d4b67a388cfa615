//! The runner: a worker that runs prompts, one at a time.

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

/// The default interval of polls and heartbeats (seed 000).
pub const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// The default lease TTL, as long as a runner may miss heartbeats (seed 000): a short network failure does
/// not lose an hour's work.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(120);
/// How long a prompt may continue after the runner began to drain.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(30);
/// The default time between SIGTERM and SIGKILL of an agent.
pub const KILL_GRACE_DEFAULT: Duration = Duration::from_secs(5);
/// The default limit of an agent's output in the attempt's log.
pub const LOG_MAX_BYTES_DEFAULT: usize = 4 * 1024 * 1024;

/// How long the worker waits for a handler beyond the kill grace of its processes.
const STOP_MARGIN: Duration = Duration::from_secs(2);

/// The options of a runner.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// Its worker id, unique among live workers. Default: `runner-` and random hex digits.
    pub name: Option<String>,
    /// The namespace of its prompts.
    pub namespace: Namespace,
    /// The working directory of its agents; must exist.
    pub project_root: PathBuf,
    /// The command line of its agents.
    pub command: AgentCommand,
    /// Variables of its environment that agents inherit besides the usual ones.
    pub pass_env: BTreeSet<String>,
    /// The interval of polls and heartbeats. Default: 1 s.
    pub poll: Duration,
    /// The TTL of its leases. Default: 120 s.
    pub lease: Duration,
    /// How long a prompt may continue after the runner began to drain. Default: 30 s.
    pub grace: Duration,
    /// The time between SIGTERM and SIGKILL of an agent. Default: 5 s.
    pub kill_grace: Duration,
    /// The limit of an agent's output in the attempt's log: three quarters are kept from its beginning, a
    /// quarter from its end. Default: 4 MiB.
    pub log_max_bytes: usize,
    /// Confinement of agents beyond the project. The default refuses to run.
    pub isolation: Isolation,
}

impl RunnerOptions {
    /// All other options have their defaults.
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
    /// The command line is refused.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// [`RunnerOptions::pass_env`] names a variable of Weaver.
    #[error(transparent)]
    Environment(#[from] NotPassed),
    /// The project's directory cannot be opened.
    #[error("cannot open the project {}: {error}; choose a directory with --project-root", path.display())]
    Project {
        /// As in [`RunnerOptions::project_root`].
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Its agents cannot be confined.
    #[error("agents cannot be confined: {0}")]
    Confinement(String),
    /// It runs as root, and its agents would run as a user who cannot change the project.
    #[error(
        "the project {} belongs to user {owner}, but its agent would run as user {user}, who cannot change it; chown it to \
         that user (chown -R), or use `confine.mode = \"namespaces\"`, which maps one user to the other",
        path.display()
    )]
    ForeignProject {
        /// The canonical path of the project.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id of the agent.
        user: u32,
    },
    /// A number or a name is out of range.
    #[error(transparent)]
    Worker(#[from] BuildError),
}

/// A worker with concurrency 1: it leases a prompt, runs the agent, and leases the next. It sends a heartbeat
/// at every poll.
///
/// # Errors
/// If the options are invalid on this machine.
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
        .no_prefetch()
        .lease_ttl(options.lease)
        .poll_every(options.poll)
        .heartbeat_every(options.poll)
        .grace(options.grace)
        .stop_grace(options.kill_grace.saturating_add(STOP_MARGIN))
        .project_root(root);
    Ok(worker.build()?)
}

/// Fails before the first lease on problems that would fail every prompt.
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
