//! The commands, one file each.

mod admin_token;
#[cfg(test)]
mod advice;
mod completions;
mod config;
mod confinement;
mod dashboard;
mod demo;
mod doctor;
mod enqueue;
mod event;
mod local;
mod merge;
mod project;
mod prompt;
mod prompt_runner;
mod queues;
mod remote;
mod schedules;
mod serve;
mod serve_limits;
mod settings;
mod store;
mod tasks;
mod tokens;
mod worker;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use weaver::core::clock::Clock;
use weaver::runtime::SystemClock;

use crate::config::keys::Key;
use crate::config::{Config, Flags, keys};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print_failure};

/// A durable job queue and scheduler: enqueue tasks, run them on workers, inspect and operate both
#[derive(Debug, Parser)]
#[command(name = "weaver", version, propagate_version = true, after_help = after_help())]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct GlobalArgs {
    /// Configuration file [default: ./weaver.toml]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    config: Option<PathBuf>,
    /// Output format [default: table]
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Global options", value_parser = ["table", "json"])]
    output: Option<String>,
    /// When to use color; auto: on a terminal, unless NO_COLOR is set [default: auto]
    #[arg(long, global = true, value_name = "WHEN", help_heading = "Global options", value_parser = ["auto", "always", "never"])]
    color: Option<String>,
    /// Allow debuggers, profilers and core dumps of this user to read the process, including its secrets
    #[arg(long, global = true, help_heading = "Global options")]
    debuggable: bool,
    /// HTTP proxy to the server; `environment`: HTTP_PROXY and HTTPS_PROXY [default: none]
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    proxy: Option<String>,
    /// Allow sending a token over plain HTTP to another machine, readable by anyone on the network path
    #[arg(
        long,
        global = true,
        num_args = 0,
        default_missing_value = "true",
        help_heading = "Global options"
    )]
    insecure_http: Option<String>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct StoreArgs {
    /// Store URL: a directory, `memory:`, `file:…`, `postgres://…` or `dynamodb://…`
    /// [default: ./weaver-data]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server: the HTTP API, the dashboard, the scheduler and a worker with the built-in handlers
    Serve(serve::ServeArgs),
    /// Run a server with sample tasks of every kind, to try Weaver
    Demo(demo::DemoArgs),
    /// Enqueue a task
    Enqueue(enqueue::EnqueueArgs),
    /// List, inspect and manage tasks
    #[command(subcommand)]
    Tasks(tasks::Command),
    /// List, pause, resume and limit queues
    #[command(subcommand)]
    Queues(queues::Command),
    /// Manage cron and event schedules
    #[command(subcommand)]
    Schedules(schedules::Command),
    /// Emit and inspect events
    #[command(subcommand)]
    Event(event::Command),
    /// List and change the runtime settings of an installation
    #[command(subcommand)]
    Settings(settings::Command),
    /// Manage merge queues for git repositories
    #[command(subcommand)]
    Merge(merge::Command),
    /// List workers
    #[command(subcommand)]
    Workers(workers::Command),
    /// Run the prompts of a project with an agent's command, one at a time
    Runner(prompt_runner::RunnerArgs),
    /// Enqueue a prompt for a runner
    Prompt(prompt::PromptArgs),
    /// Run a worker with the built-in handlers, for a server or on a store
    Worker(worker::WorkerArgs),
    /// Create, list and revoke API tokens
    #[command(subcommand)]
    Tokens(tokens::Command),
    /// Open the dashboard in a browser, logged in
    Dashboard(dashboard::DashboardArgs),
    /// Create a short-lived admin token and print it, for curl and scripts on this machine
    Token(admin_token::TokenArgs),
    /// Manage a store: init, check, compact, backup, export, import
    #[command(subcommand)]
    Store(store::Command),
    /// Check the configuration, the store and this machine, and print what to fix
    Doctor(doctor::DoctorArgs),
    /// Show the configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Print shell completions
    Completions(completions::CompletionsArgs),
}

pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) output: Output,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    if let Some(code) = weaver_process::guard::run_if_asked() {
        return ExitCode::from(code);
    }
    let cli = Cli::parse();
    if !cli.global.debuggable {
        crate::secrets::scrub_environment();
        weaver_process::secrecy::forbid_inspection();
    }
    let flags = cli.flags();
    let config = Config::load(&flags, crate::secrets::variables().filter_map(as_text));
    // Failures are printed in the requested format even if the rest of the configuration cannot be read.
    let from_flags = Config::of_flags(&flags);
    let is_json = config.as_ref().unwrap_or(&from_flags).text(keys::OUTPUT) == "json";
    let done = start(cli.command, config, from_flags);
    let exit = done.unwrap_or_else(|failure| {
        print_failure(&failure, is_json);
        failure.exit
    });
    ExitCode::from(exit.code())
}

fn start(command: Command, config: Result<Config, Failure>, from_flags: Config) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Failed, format!("starting the runtime's threads failed: {error}"))
            .next("raise `ulimit -u`")
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    runtime.block_on(async {
        match command {
            Command::Completions(args) => completions::run(&args),
            // Checks the configuration too, and so starts without a valid one.
            Command::Doctor(_) => doctor::run(config, from_flags, clock).await,
            Command::Store(command) => store::run(command, Context::new(config?, clock)).await,
            Command::Config(command) => config::run(&command, &Context::new(config?, clock)),
            Command::Enqueue(args) => enqueue::run(args, &Context::new(config?, clock)).await,
            Command::Tasks(command) => tasks::run(command, &Context::new(config?, clock)).await,
            Command::Queues(command) => queues::run(command, &Context::new(config?, clock)).await,
            Command::Schedules(command) => schedules::run(command, &Context::new(config?, clock)).await,
            Command::Event(command) => event::run(command, &Context::new(config?, clock)).await,
            Command::Settings(command) => settings::run(command, &Context::new(config?, clock)).await,
            Command::Merge(command) => Box::pin(merge::run(command, Context::new(config?, clock))).await,
            Command::Serve(_) => Box::pin(serve::run(Context::new(config?, clock))).await,
            Command::Demo(_) => Box::pin(demo::run(Context::new(config?, clock))).await,
            Command::Runner(args) => prompt_runner::run(args, Context::new(config?, clock)).await,
            Command::Prompt(args) => prompt::run(args, Context::new(config?, clock)).await,
            Command::Worker(args) => worker::run(args, Context::new(config?, clock)).await,
            Command::Tokens(command) => tokens::run(command, Context::new(config?, clock)).await,
            Command::Dashboard(args) => {
                let context = Context::new(config?, clock);
                dashboard::run(&remote::Remote::new(&context)?, &args).await
            }
            Command::Token(args) => {
                let context = Context::new(config?, clock);
                admin_token::run(&remote::Remote::new(&context)?, &args).await
            }
            Command::Workers(command) => workers::run(command, &Context::new(config?, clock)).await,
        }
    })
}

impl Context {
    fn new(config: Config, clock: Arc<dyn Clock>) -> Self {
        Self { output: Output::new(&config), config, clock }
    }
}

impl Cli {
    /// The settings given as flags.
    fn flags(&self) -> Flags {
        let mut given = vec![
            (keys::OUTPUT, self.global.output.as_ref()),
            (keys::COLOR, self.global.color.as_ref()),
            (keys::PROXY, self.global.proxy.as_ref()),
            (keys::INSECURE_HTTP, self.global.insecure_http.as_ref()),
        ];
        match &self.command {
            Command::Enqueue(args) => given.extend(args.remote.settings()),
            Command::Tasks(command) => given.extend(command.remote().settings()),
            Command::Queues(command) => given.extend(command.remote().settings()),
            Command::Dashboard(args) => given.extend(args.remote.settings()),
            Command::Workers(command) => given.extend(command.remote().settings()),
            Command::Schedules(command) => given.extend(command.remote().settings()),
            Command::Event(command) => given.extend(command.remote().settings()),
            Command::Settings(command) => given.extend(command.remote().settings()),
            Command::Worker(args) => given.extend(args.given()),
            Command::Runner(args) => given.extend(args.given()),
            Command::Prompt(args) => given.extend(args.given()),
            Command::Serve(args) => given.extend(args.given()),
            Command::Demo(args) => given.extend(args.given()),
            Command::Tokens(command) => given.extend(command.given()),
            Command::Token(args) => given.extend(args.remote.settings()),
            Command::Merge(command) => given.extend(command.given()),
            Command::Store(command) => given.push(command.store().setting()),
            Command::Doctor(args) => given.push(args.store.setting()),
            Command::Config(command) => given.push(command.store().setting()),
            Command::Completions(_) => {}
        }
        let values = given.into_iter().filter_map(|(key, value)| Some((key, value?.clone()))).collect();
        Flags { file: self.global.config.clone(), values }
    }
}

/// A setting, and its flag's value if given.
pub(crate) type Given<'a> = (&'static Key, Option<&'a String>);

impl StoreArgs {
    fn setting(&self) -> Given<'_> {
        (keys::STORE, self.store.as_ref())
    }
}

/// `None`: a variable that is not UTF-8 is not a setting.
fn as_text((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

fn after_help() -> String {
    let mut text =
        "Examples:\n  weaver demo\n  weaver serve\n  weaver enqueue http '{\"url\": \"https://example.org\"}'\n  weaver doctor\n\n\
        Precedence of settings: flags, WEAVER_* variables, weaver.toml, defaults (`weaver config show`).\n\n\
        Exit codes:\n"
            .to_owned();
    for exit in Exit::ALL {
        text.push_str(&format!("  {}  {}\n", exit.code(), exit.meaning()));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn walk(command: &clap::Command, path: &str, visit: &mut impl FnMut(&clap::Command, &str)) {
        visit(command, path);
        for inner in command.get_subcommands() {
            walk(inner, &format!("{path} {}", inner.get_name()), visit);
        }
    }

    #[test]
    fn the_definitions_of_the_command_line_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does_and_shows_an_example_of_itself() {
        walk(&Cli::command(), "weaver", &mut |command, path| {
            assert!(command.get_about().is_some(), "{path}");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("Examples:\n  {path}")), "`{path} --help` has no example: {help}");
        });
    }
}
