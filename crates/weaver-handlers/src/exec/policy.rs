//! The operator's policy for `exec`, and applying it to a task.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_process::confine::{HOME_DEFAULT, Purpose};
use weaver_process::{Isolation, OutputLimits, ProcessSpec, Rules};
use weaver_runtime::LogLimits;

use super::template::Template;
use super::workdir::Root;
use super::{ExecTask, PolicyError, milliseconds};

/// The tail of the output in a result: fits in JSON, whatever its bytes.
const TAIL_BYTES: usize = 8 * 1024;
/// A line must fit a journal entry, also if each invalid byte becomes a 3-byte replacement character.
const LINE_BYTES: usize = 4 * 1024;

/// The operator's policy for `exec` tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecPolicy {
    /// Allowed commands, by the name that tasks use.
    #[serde(default)]
    pub commands: BTreeMap<String, AllowedCommand>,
    /// Variables of the server's environment that commands inherit; no others are passed on.
    #[serde(default)]
    pub inherit_env: BTreeSet<String>,
    /// Variables that a task may set; none may begin with `WEAVER_`.
    #[serde(default)]
    pub task_env: BTreeSet<String>,
    /// Commands run in this directory or below: an absolute path.
    pub working_root: PathBuf,
    /// The limit of a command's output in the attempt's log. Default: 1 MiB.
    #[serde(default = "output_max_bytes")]
    pub output_max_bytes: usize,
    /// The time between SIGTERM and SIGKILL. Default: 3 s, less than a worker waits for its handlers.
    #[serde(default = "grace_ms")]
    pub grace_ms: u64,
    /// Confinement of the commands, which can always write below `working_root`.
    #[serde(default)]
    pub confine: Rules,
}

/// A command that tasks may run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedCommand {
    /// An absolute path, not searched in `PATH`.
    pub program: PathBuf,
    /// Its arguments. `{name}` is replaced by a value of the task, within this one argument; `{{` and `}}`
    /// are literal braces.
    #[serde(default)]
    pub args: Vec<String>,
    /// Confinement of this command, instead of the policy's `confine`.
    #[serde(default)]
    pub confine: Option<Rules>,
}

fn output_max_bytes() -> usize {
    OutputLimits::default().total_bytes
}

fn grace_ms() -> u64 {
    3000
}

impl ExecPolicy {
    /// Allows no command; see [`allow`](Self::allow).
    pub fn new(working_root: impl Into<PathBuf>) -> Self {
        Self {
            commands: BTreeMap::new(),
            inherit_env: BTreeSet::new(),
            task_env: BTreeSet::new(),
            working_root: working_root.into(),
            output_max_bytes: output_max_bytes(),
            grace_ms: grace_ms(),
            confine: Rules::default(),
        }
    }

    /// Runs its commands unconfined: they are as trusted as the server.
    #[must_use]
    pub fn unconfined(mut self) -> Self {
        self.confine.unconfined = true;
        self
    }

    /// Adds a command to the allow-list, replacing one of the same name.
    #[must_use]
    pub fn allow(
        mut self,
        name: impl Into<String>,
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        self.commands.insert(name.into(), AllowedCommand { program: program.into(), args, confine: None });
        self
    }
}

/// A validated policy, with parsed templates and a canonical root.
#[derive(Debug)]
pub(super) struct Checked {
    commands: BTreeMap<String, Allowed>,
    inherited: Vec<(OsString, OsString)>,
    task_env: BTreeSet<String>,
    root: Root,
    limits: OutputLimits,
    pub(super) log_limits: LogLimits,
    grace: Duration,
}

#[derive(Debug)]
struct Allowed {
    program: PathBuf,
    templates: Vec<Template>,
    isolation: Isolation,
}

impl Checked {
    /// `isolation` has the confiner; its own rules are ignored.
    pub(super) fn new(policy: ExecPolicy, isolation: &Isolation) -> Result<Self, PolicyError> {
        let mut commands = BTreeMap::new();
        for (name, command) in policy.commands {
            let key = || format!("exec.commands.{name}");
            if !command.program.is_absolute() {
                let problem = format!("`{}` is not an absolute path", command.program.display());
                return Err(PolicyError::new(key(), problem));
            }
            let templates = command.args.iter().map(|arg| arg.parse::<Template>());
            let templates = templates.collect::<Result<_, _>>();
            let templates = templates.map_err(|problem| PolicyError::new(key(), problem))?;
            let rules = command.confine.unwrap_or_else(|| policy.confine.clone());
            let isolation = isolation.with_rules(rules);
            commands.insert(name, Allowed { program: command.program, templates, isolation });
        }
        if let Some(name) = policy.task_env.iter().find(|name| name.starts_with("WEAVER_")) {
            return Err(PolicyError::new(
                "exec.task_env",
                format!("`{name}` is reserved: Weaver sets WEAVER_*"),
            ));
        }
        let inherited =
            policy.inherit_env.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        Ok(Self {
            commands,
            inherited: inherited.collect(),
            task_env: policy.task_env,
            root: Root::new(&policy.working_root)
                .map_err(|problem| PolicyError::new("exec.working_root", problem))?,
            limits: OutputLimits {
                // Limited by the attempt's log, which keeps head and tail.
                total_bytes: usize::MAX,
                line_bytes: LINE_BYTES,
                tail_bytes: TAIL_BYTES,
            },
            log_limits: LogLimits::total(policy.output_max_bytes),
            grace: milliseconds(policy.grace_ms),
        })
    }

    /// The process for a task, and its working directory, held open; or why the task is refused.
    pub(super) fn prepare(
        &self,
        task: &ExecTask,
        about: &[(&str, String)],
    ) -> Result<(ProcessSpec, Option<OwnedFd>), String> {
        let Some(Allowed { program, templates, isolation }) = self.commands.get(&task.command) else {
            return Err(self.unknown(&task.command));
        };
        let args = fill(templates, task)?;
        let mut env = self.inherited.clone();
        for (name, value) in &task.env {
            if !self.task_env.contains(name) {
                return Err(format!("`env.{name}` is not allowed; allowed: {}", listed(&self.task_env)));
            }
            if value.contains('\0') {
                return Err(format!("`env.{name}` contains a NUL character"));
            }
            env.push((name.into(), value.into()));
        }
        env.extend(about.iter().map(|(name, value)| (name.into(), value.into())));
        let guard = isolation.guard();
        let entered = self.root.enter(task.dir.as_deref())?;
        let own = [self.root.path().to_owned()];
        let given = env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let home = given.clone().unwrap_or_else(|| HOME_DEFAULT.into());
        let user = isolation.user_for(self.root.owner());
        let confinement = isolation.confinement(&Purpose::Exec, &own, &home, user)?;
        if confinement.is_some() && given.is_none() {
            env.push(("HOME".into(), home.into()));
        }
        // A guard enters the directory itself; without one, the path goes through the open descriptor.
        let current_dir = if guard.is_some() { entered.path } else { entered.through };
        let spec = ProcessSpec {
            program: program.clone(),
            args,
            env,
            current_dir,
            beneath: guard.is_some().then(|| self.root.path().to_owned()),
            stdin: None,
            grace: self.grace,
            limits: self.limits,
            guard,
            confinement,
        };
        Ok((spec, entered.held))
    }

    fn unknown(&self, command: &str) -> String {
        format!("command `{command}` is not allowed; allowed: {}", listed(self.commands.keys()))
    }
}

/// One argument per template. An unused value is an error.
fn fill(templates: &[Template], task: &ExecTask) -> Result<Vec<OsString>, String> {
    let used = |name: &String| templates.iter().any(|template| template.uses(name));
    if let Some(name) = task.values.keys().find(|name| !used(name)) {
        let known: BTreeSet<&str> = templates.iter().flat_map(Template::names).collect();
        let known = listed(known);
        return Err(format!("command `{}` has no value `{name}`; its values: {known}", task.command));
    }
    let mut args = Vec::with_capacity(templates.len());
    let mut options_are_over = false;
    for template in templates {
        args.push(template.fill(&task.values, options_are_over)?.into());
        options_are_over |= template.ends_options();
    }
    Ok(args)
}

fn listed(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
