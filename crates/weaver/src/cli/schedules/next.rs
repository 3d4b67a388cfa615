//! `weaver schedules next`: upcoming runs of a schedule on a server, or of a cron expression without one.

use clap::Args;
use serde::Serialize;
use weaver::core::time::Timestamp;
use weaver_api::{Fold, Gap, Trigger, from_word};
use weaver_scheduler::calendar::{BadSchedule, Fire, Schedule, ScheduleSpec, Zone};

use crate::cli::Context;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::Table;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver schedules next nightly\n  weaver schedules next --cron '30 2 * * *' --tz Europe/Berlin --count 5\n  \
    weaver schedules next --cron 'every 5m' --from 2026-01-31T09:30:00Z --output json"
)]
pub(crate) struct NextArgs {
    /// Name of a schedule on the server
    #[arg(required_unless_present = "cron", conflicts_with_all = ["cron", "tz", "gap", "fold"])]
    name: Option<String>,
    /// Cron expression with 5 fields, or 6 with seconds first; or `every 5m`, `daily at 02:30`,
    /// `once at 2026-03-29T02:30`
    #[arg(long, value_name = "EXPR")]
    pub(super) cron: Option<String>,
    /// IANA time zone, such as Europe/Berlin; required if the expression has a time of day
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Runs after this instant [default: now]
    #[arg(long, value_name = "INSTANT")]
    from: Option<Timestamp>,
    /// Number of runs, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
    /// DST gap: a local time that does not exist runs at the end of the gap (`shift`) or not at all (`skip`)
    /// [default: shift; skip for intervals]
    #[arg(long, value_name = "RULE", value_parser = ["shift", "skip"])]
    gap: Option<String>,
    /// DST fold: a local time that occurs twice runs the `first` time, the `last`, or `both`
    /// [default: first; both for intervals]
    #[arg(long, value_name = "RULE", value_parser = ["first", "last", "both"])]
    fold: Option<String>,
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
}

#[derive(Debug, Serialize)]
struct Next {
    schedule: Expression,
    runs: Vec<RunLine>,
}

/// A schedule in the words of the API: stored, `fold` is called `overlap`.
#[derive(Debug, Serialize)]
struct Expression {
    schedule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tz: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fold: Option<Fold>,
}

impl From<&ScheduleSpec> for Expression {
    fn from(spec: &ScheduleSpec) -> Self {
        let ScheduleSpec { schedule, tz, gap, fold } = spec.clone();
        Self { schedule, tz, gap, fold }
    }
}

#[derive(Debug, Serialize)]
struct RunLine {
    at: Timestamp,
    notes: Vec<String>,
}

pub(super) fn of_expression(args: &NextArgs, cron: &str, context: &Context) -> Result<Exit, Failure> {
    let schedule = Schedule::new(args.spec(cron)).map_err(refusal)?;
    let from = args.from.unwrap_or_else(|| context.clock.now());
    print_runs(context, &schedule, from, args.count)
}

pub(super) async fn of_schedule(remote: &Remote<'_>, args: &NextArgs) -> Result<Exit, Failure> {
    let name = args.name.as_deref().unwrap_or_default();
    let found = remote.client.schedule(&remote.namespace, name).await?;
    let spec = match found.spec.trigger {
        Trigger::Time { schedule, tz, gap, fold } => ScheduleSpec { schedule, tz, gap, fold },
        Trigger::Event { event_type } => {
            let message = format!(
                "schedule {name} is triggered by events of type `{event_type}` and has no upcoming runs"
            );
            return Err(Failure::new(Exit::Refused, message).next("emit one with `weaver event emit`"));
        }
    };
    let schedule = Schedule::new(spec).map_err(refusal)?;
    let from = args.from.unwrap_or_else(|| remote.context.clock.now());
    print_runs(remote.context, &schedule, from, args.count)
}

fn print_runs(context: &Context, schedule: &Schedule, from: Timestamp, count: u16) -> Result<Exit, Failure> {
    let fires = schedule.next(from, count.into());
    let lines = fires.iter().map(|fire| RunLine { at: fire.at, notes: notes(fire) }).collect();
    let answer = Next { schedule: schedule.spec().into(), runs: lines };
    context.output.answer(&answer, || table(context, schedule, &fires))?;
    Ok(Exit::Done)
}

impl NextArgs {
    fn spec(&self, cron: &str) -> ScheduleSpec {
        let mut spec = ScheduleSpec::new(cron);
        spec.tz.clone_from(&self.tz);
        spec.gap = self.gap.as_deref().and_then(|word| from_word(word).ok());
        spec.fold = self.fold.as_deref().and_then(|word| from_word(word).ok());
        spec
    }
}

fn table(context: &Context, schedule: &Schedule, fires: &[Fire]) -> String {
    if fires.is_empty() {
        return "No upcoming runs.\n".to_owned();
    }
    let local = Zone::system();
    let zone = schedule.zone().unwrap_or(&local);
    let mut table = Table::new([zone.name(), "LOCAL", "NOTES"]);
    for fire in fires {
        table.row([zone.show(fire.at), local.show(fire.at), notes(fire).join("; ")]);
    }
    context.output.render(&table)
}

fn notes(fire: &Fire) -> Vec<String> {
    fire.notes.iter().map(ToString::to_string).collect()
}

fn refusal(bad: BadSchedule) -> Failure {
    Failure::new(
        Exit::Usage,
        format!("{}: {}\n{}", bad.part.unwrap_or(bad.field), bad.problem, bad.pointer()),
    )
    .next(bad.hint)
}
