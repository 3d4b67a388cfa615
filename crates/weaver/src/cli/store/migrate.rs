//! `weaver store migrate`.

use clap::Args;
use serde_json::json;

use crate::cli::StoreArgs;
use crate::cli::store::StoreTask;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver store migrate --store postgres://weaver@db.example/jobs --dry-run\n  \
    weaver store migrate --store postgres://weaver@db.example/jobs\n\n\
    Migrations go forward only, in one transaction, on one node at a time. `weaver serve` migrates when it starts."
)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Print the SQL statements without executing them
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(task: &StoreTask, args: &MigrateArgs) -> Result<Exit, Failure> {
    let done = task.url.migrate(args.dry_run).await?;
    let steps: Vec<_> = done
        .steps
        .iter()
        .map(|step| json!({"version": step.version, "name": step.name, "sql": args.dry_run.then_some(&step.sql)}))
        .collect();
    let answer = json!({
        "store": task.url.to_string(), "before": done.before, "dry_run": args.dry_run, "steps": steps,
    });
    task.context.output.answer(&answer, || {
        if done.steps.is_empty() {
            return format!("{} is at schema version {}: nothing to do.\n", task.url, done.before);
        }
        let mut text = String::new();
        for step in &done.steps {
            match args.dry_run {
                true => text.push_str(&format!("-- step {}: {}\n{}\n", step.version, step.name, step.sql)),
                false => text.push_str(&format!("step {}: {}\n", step.version, step.name)),
            }
        }
        text
    })?;
    Ok(Exit::Done)
}
