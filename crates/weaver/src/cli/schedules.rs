//! `weaver schedules …`.

use clap::{Args, Subcommand};
use serde::Serialize;
use weaver::core::time::Timestamp;
use weaver_scheduler::calendar::{BadSchedule, Fire, Gap, Overlap, Schedule, ScheduleSpec, Zone};

use crate::cli::Context;
use crate::exit::{Exit, Failure};
use crate::output::Table;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver schedules next --cron '30 2 * * *' --tz Europe/Berlin")]
pub(crate) enum Command {
    /// Print when a schedule fires next, without a server
    Next(NextArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver schedules next --cron '30 2 * * *' --tz Europe/Berlin --count 5\n  \
    weaver schedules next --cron 'every 5m' --from 2026-01-31T09:30:00Z --output json"
)]
pub(crate) struct NextArgs {
    /// A cron expression of 5 fields, or 6 with seconds first; or `every 5m`, `daily at 02:30`, `once at 2026-03-29T02:30`
    #[arg(long, value_name = "EXPR")]
    cron: String,
    /// The time zone, by its IANA name: needed wherever times of day are named
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Fires after this instant [default: now]
    #[arg(long, value_name = "INSTANT")]
    from: Option<Timestamp>,
    /// How many fires
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
    /// A time that the clock leaves out: fire at the end of the gap, or not [default: shift; skip for intervals]
    #[arg(long, value_name = "RULE", value_parser = ["shift", "skip"])]
    gap: Option<String>,
    /// A time that the clock shows twice: fire the first time, the last, or both [default: first; both for intervals]
    #[arg(long, value_name = "RULE", value_parser = ["first", "last", "both"])]
    overlap: Option<String>,
}

/// The answer in JSON.
#[derive(Debug, Serialize)]
struct Next {
    schedule: ScheduleSpec,
    fires: Vec<FireLine>,
}

#[derive(Debug, Serialize)]
struct FireLine {
    at: Timestamp,
    notes: Vec<String>,
}

pub(crate) fn run(command: &Command, context: &Context) -> Result<Exit, Failure> {
    let Command::Next(args) = command;
    let schedule = Schedule::new(args.spec()).map_err(refusal)?;
    let from = args.from.unwrap_or_else(|| context.clock.now());
    let fires = schedule.next(from, args.count.into());
    let lines = fires.iter().map(|fire| FireLine { at: fire.at, notes: notes(fire) }).collect();
    let answer = Next { schedule: schedule.spec().clone(), fires: lines };
    context.output.answer(&answer, || table(context, &schedule, &fires))?;
    Ok(Exit::Done)
}

impl NextArgs {
    fn spec(&self) -> ScheduleSpec {
        let mut spec = ScheduleSpec::new(&self.cron);
        spec.tz.clone_from(&self.tz);
        spec.gap = self.gap.as_deref().map(|rule| if rule == "shift" { Gap::Shift } else { Gap::Skip });
        spec.overlap = self.overlap.as_deref().map(|rule| match rule {
            "first" => Overlap::First,
            "last" => Overlap::Last,
            _ => Overlap::Both,
        });
        spec
    }
}

fn table(context: &Context, schedule: &Schedule, fires: &[Fire]) -> String {
    if fires.is_empty() {
        return "It does not fire any more.\n".to_owned();
    }
    let local = Zone::of_this_machine();
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
