//! The flags of a schedule.

use clap::Args;
use weaver::core::retry::FACTOR_DEFAULT;
use weaver_api::{ConcurrencyPolicy, Fold, Gap, Misfire, RetryPolicy, ScheduleSpec, Trigger, from_word};

use crate::cli::enqueue::{attempts_help, label, span_ms};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct SpecArgs {
    /// Trigger: a cron expression with 5 fields, or 6 with seconds first; or `every 5m`, `daily at 02:30`,
    /// `once at 2026-03-29T02:30`
    #[arg(long, value_name = "EXPR", conflicts_with = "event")]
    cron: Option<String>,
    /// Trigger: every event of this type
    #[arg(long, value_name = "TYPE")]
    event: Option<String>,
    /// IANA time zone, such as Europe/Berlin; required if the expression has a time of day
    #[arg(long, value_name = "ZONE", conflicts_with = "event")]
    tz: Option<String>,
    /// DST gap: a local time that does not exist runs at the end of the gap (`shift`) or not at all (`skip`)
    /// [default: shift; skip for intervals]
    #[arg(long, value_name = "RULE", value_parser = from_word::<Gap>, conflicts_with = "event")]
    gap: Option<Gap>,
    /// DST fold: a local time that occurs twice runs the `first` time, the `last`, or `both`
    /// [default: first; both for intervals]
    #[arg(long, value_name = "RULE", value_parser = from_word::<Fold>, conflicts_with = "event")]
    fold: Option<Fold>,
    /// Field of the payload that receives the event
    #[arg(long, value_name = "NAME", conflicts_with = "cron")]
    event_field: Option<String>,
    /// Queue of its tasks [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Priority of its tasks, from 0 (most urgent) to 9 [default: 5]
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Timeout of each attempt: 30s, 5m [default: none]
    #[arg(long, value_name = "SPAN", value_parser = span_ms)]
    timeout: Option<u64>,
    #[arg(long, value_name = "COUNT", help = attempts_help())]
    max_attempts: Option<u32>,
    /// Backoff after a failed attempt: `none`, `fixed:30s`, `exponential:1s:1h` (doubling from 1s to 1h),
    /// `exponential:15s:8h:16` (factor 16)
    #[arg(long, value_name = "RULE", value_parser = backoff)]
    backoff: Option<RetryPolicy>,
    /// Label of its tasks as NAME=VALUE; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// While its last task has not ended: `allow` another, `forbid` it, or `replace` the last [default:
    /// allow]
    #[arg(long, value_name = "POLICY", value_parser = from_word::<ConcurrencyPolicy>)]
    concurrency: Option<ConcurrencyPolicy>,
    /// Missed runs: `run-once`, `run-all:10` (at most 10), `skip-after:5m` [default: run-once]
    #[arg(long, value_name = "POLICY", value_parser = misfire)]
    misfire: Option<Misfire>,
}

impl SpecArgs {
    pub(super) fn is_given(&self) -> bool {
        let Self { cron, event, tz, gap, fold, event_field, queue, .. } = self;
        let Self { priority, timeout, max_attempts, backoff, labels, concurrency, misfire, .. } = self;
        [cron, event, tz, event_field, queue].iter().any(|text| text.is_some())
            || gap.is_some()
            || fold.is_some()
            || priority.is_some()
            || timeout.is_some()
            || max_attempts.is_some()
            || backoff.is_some()
            || !labels.is_empty()
            || concurrency.is_some()
            || misfire.is_some()
    }

    pub(super) fn trigger(&self) -> Option<Trigger> {
        let time = self.cron.as_ref().map(|schedule| Trigger::Time {
            schedule: schedule.clone(),
            tz: self.tz.clone(),
            gap: self.gap,
            fold: self.fold,
        });
        time.or_else(|| {
            self.event.as_ref().map(|event_type| Trigger::Event { event_type: event_type.clone() })
        })
    }

    /// Applies the given flags, and keeps the rest.
    pub(super) fn apply(&self, spec: &mut ScheduleSpec) -> Result<(), Failure> {
        self.apply_trigger(spec)?;
        macro_rules! set {
            ($($given:ident => $place:expr;)*) => { $(if let Some(value) = &self.$given { $place = value.clone(); })* };
        }
        set! {
            concurrency => spec.concurrency_policy;
            misfire => spec.misfire;
        }
        macro_rules! set_some {
            ($($given:ident => $place:expr;)*) => { $(if self.$given.is_some() { $place = self.$given.clone(); })* };
        }
        let task = &mut spec.task;
        set_some! {
            event_field => task.event_field;
            queue => task.queue;
            priority => task.priority;
            timeout => task.timeout_ms;
            max_attempts => task.max_attempts;
            backoff => task.retry;
        }
        task.labels.extend(self.labels.iter().cloned());
        Ok(())
    }

    fn apply_trigger(&self, spec: &mut ScheduleSpec) -> Result<(), Failure> {
        match (&mut spec.trigger, self.trigger()) {
            // The zone is kept unless another is given.
            (Trigger::Time { schedule, tz, gap, fold }, None | Some(Trigger::Time { .. })) => {
                if let Some(cron) = &self.cron {
                    schedule.clone_from(cron);
                }
                *tz = self.tz.clone().or(tz.take());
                *gap = self.gap.or(*gap);
                *fold = self.fold.or(*fold);
            }
            (place, Some(trigger)) => *place = trigger,
            (Trigger::Event { .. }, None)
                if self.tz.is_some() || self.gap.is_some() || self.fold.is_some() =>
            {
                let message = "the schedule is triggered by events, which have no time zone";
                return Err(Failure::new(Exit::Usage, message).next("give --cron as well"));
            }
            (Trigger::Event { .. }, None) => {}
        }
        Ok(())
    }
}

fn misfire(text: &str) -> Result<Misfire, String> {
    let (word, rest) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
    let usage = || "give `run-once`, `run-all:10` or `skip-after:5m`".to_owned();
    match (word, rest) {
        ("run-once", None) => Ok(Misfire::RunOnce),
        ("run-all", Some(max)) => max.parse().map(|max| Misfire::RunAll { max }).map_err(|_| usage()),
        ("skip-after", Some(span)) => Ok(Misfire::SkipAfter { seconds: span_ms(span)? / 1000 }),
        _ => Err(usage()),
    }
}

fn exponential(base: &str, cap: &str, factor: u32) -> Result<RetryPolicy, String> {
    Ok(RetryPolicy::Exponential { base_ms: span_ms(base)?, factor, cap_ms: span_ms(cap)?, jitter: true })
}

fn backoff(text: &str) -> Result<RetryPolicy, String> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        ["none"] => Ok(RetryPolicy::None {}),
        ["fixed", delay] => Ok(RetryPolicy::Fixed { delay_ms: span_ms(delay)? }),
        ["exponential", base, cap] => exponential(base, cap, FACTOR_DEFAULT),
        ["exponential", base, cap, factor] => {
            let factor = factor.parse().map_err(|_| format!("`{factor}` is not a whole number"))?;
            exponential(base, cap, factor)
        }
        _ => Err("give `none`, `fixed:30s`, `exponential:1s:1h` or `exponential:15s:8h:16`".to_owned()),
    }
}
