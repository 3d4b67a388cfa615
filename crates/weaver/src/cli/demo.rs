//! `weaver demo`: a server with sample tasks of every kind.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use weaver::core::clock::Clock;
use weaver::core::error::Error;
use weaver::core::ports::{Expect, QueueSettings, Store};
use weaver::prelude::{Ctx, Namespace, NewTask, QueueName, Registry, RetryPolicy, Shared, TaskError};
use weaver_scheduler::calendar::ScheduleSpec;
use weaver_scheduler::definition::{DefinitionSpec, TaskTemplate};
use weaver_scheduler::{Options, Scheduler, SchedulerError};

use crate::cli::serve::{self, AddressArgs, Endpoint};
use crate::cli::store::StoreTask;
use crate::cli::worker::WorkerSettings;
use crate::cli::{Context, Given};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, start_log};
use crate::wiring::StoreUrl;

/// Its store, a directory that can be inspected and removed.
const DIRECTORY: &str = "./weaver-demo";

/// A queue that is paused.
const PAUSED: &str = "demo-paused";

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver demo\n  weaver demo --listen 127.0.0.1:8000\n\n\
    Then, in another terminal of the same directory:\n  weaver tasks list\n  weaver tasks explain 5\n  weaver tasks logs 2 -f\n  weaver schedules list\n\n\
    All data is in ./weaver-demo; remove that directory to start over.")]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    address: AddressArgs,
    #[command(flatten)]
    worker: WorkerSettings,
}

impl DemoArgs {
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        self.worker.given().into_iter().chain(self.address.given()).collect()
    }
}

pub(crate) async fn run(context: Context) -> Result<Exit, Failure> {
    start_log(&context.config);
    let endpoint = Endpoint::new(&context.config)?;
    let task = StoreTask::at(StoreUrl::parse(DIRECTORY)?, context);
    let store = task.open_to_serve(&Progress::new("opening the store")).await?;
    enqueue_samples(&*store).await?;
    add_schedules(&store, &task.context.clock).await?;
    let registry = samples(&task.context.clock)?;
    serve::serve_store(&task, store, endpoint, registry).await
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Invalid(_) => Exit::Usage,
            Error::NotFound { .. } => Exit::NotFound,
            Error::Unavailable { .. } => Exit::Busy,
            Error::Damaged { .. } => Exit::Damaged,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

fn samples(clock: &Arc<dyn Clock>) -> Result<Registry, Failure> {
    let registry = Registry::new().share(Arc::clone(clock));
    let all = registry
        .handle("demo.hello", hello)
        .and_then(|registry| registry.handle_with("demo.slow", slow))
        .and_then(|registry| registry.handle("demo.flaky", flaky))
        .and_then(|registry| registry.handle("demo.broken", broken))
        .and_then(|registry| registry.handle("demo.pulse", pulse));
    all.map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

async fn hello(name: String, _: Ctx) -> Result<String, TaskError> {
    Ok(format!("Hello, {name}!"))
}

/// Takes two minutes, reports progress, and logs each step.
async fn slow(steps: u32, clock: Shared<Arc<dyn Clock>>, ctx: Ctx) -> Result<u32, TaskError> {
    for step in 1..=steps {
        ctx.log(format!("step {step} of {steps}"));
        ctx.progress(step as f32 / steps as f32, format!("step {step}"));
        let wake = clock.monotonic().saturating_add(Duration::from_secs(2));
        tokio::select! {
            () = clock.sleep_until(wake) => {}
            () = ctx.cancelled() => return Err(TaskError::retry("stopped before it finished")),
        }
    }
    Ok(steps)
}

async fn flaky(_: (), ctx: Ctx) -> Result<&'static str, TaskError> {
    if ctx.attempt() < 3 {
        return Err(TaskError::retry("the connection was refused"));
    }
    Ok("succeeded at the third attempt")
}

async fn broken(_: (), ctx: Ctx) -> Result<(), TaskError> {
    ctx.log("no such recipient");
    Err(TaskError::fatal("no such recipient: a retry cannot succeed"))
}

/// Snoozes for five seconds, so that something always changes.
async fn pulse(_: (), ctx: Ctx) -> Result<(), TaskError> {
    ctx.log("alive");
    Err(TaskError::snooze(Duration::from_secs(5)))
}

/// Once per store: the idempotency keys keep a restarted demo from enqueuing them again.
async fn enqueue_samples(store: &dyn Store) -> Result<(), Failure> {
    let fixed = RetryPolicy::Fixed { delay: Duration::from_secs(5) };
    let tasks = vec![
        sample("demo.hello", &json!("Ada"), "hello"),
        sample("demo.slow", &json!(60), "slow"),
        sample("demo.flaky", &json!(null), "flaky").retry(fixed),
        sample("demo.broken", &json!(null), "broken"),
        sample("demo.hello", &json!("later"), "later").delay(Duration::from_secs(600)),
        sample("demo.hello", &json!("paused"), "paused").queue(PAUSED),
        sample("demo.unhandled", &json!(null), "unhandled"),
        sample("demo.slow", &json!(5), "serial-1").serial_key("one-at-a-time"),
        sample("demo.slow", &json!(5), "serial-2").serial_key("one-at-a-time"),
        sample("demo.pulse", &json!(null), "pulse"),
        sample("http", &json!({"url": "https://example.org/"}), "http"),
    ];
    let named = |error| Failure::from(Error::Invalid(error));
    let namespace = Namespace::new("default").map_err(named)?;
    let queue = QueueName::new(PAUSED).map_err(named)?;
    let paused = QueueSettings { paused: true, max_running: None, ..QueueSettings::default() };
    store.put_queue(&namespace, &queue, paused, Expect::Anything).await?;
    for enqueued in store.enqueue_batch(tasks).await? {
        enqueued?;
    }
    Ok(())
}

/// Cron and event schedules, unless they exist.
async fn add_schedules(store: &Arc<dyn Store>, clock: &Arc<dyn Clock>) -> Result<(), Failure> {
    let options = Options { node: "demo".to_owned() };
    let scheduler = Scheduler::new(Arc::clone(store), Arc::clone(clock), options);
    let hello = |name: &str| TaskTemplate::new("demo.hello").payload(json!(name));
    let minutely = DefinitionSpec::timed(ScheduleSpec::new("every 1m"), hello("every minute"));
    let morning = ScheduleSpec::new("daily at 07:00").tz("Europe/Berlin");
    let samples = [
        ("demo-minutely", minutely),
        ("demo-morning", DefinitionSpec::timed(morning, hello("this morning"))),
        ("demo-greeting", DefinitionSpec::on_event("demo.arrived", hello("newcomer"))),
    ];
    for (name, spec) in samples {
        match scheduler.add(&Namespace::default(), name, spec).await {
            Ok(_) | Err(SchedulerError::Exists { .. }) => {}
            Err(error) => return Err(Failure::new(Exit::Failed, format!("schedule {name}: {error}"))),
        }
    }
    Ok(())
}

fn sample(task_type: &'static str, payload: &serde_json::Value, name: &str) -> NewTask {
    let task = NewTask::new(task_type).json(payload).expect("a JSON value is JSON");
    task.idempotency_key(format!("demo-{name}"))
}
