//! What flags say about a schedule.

use clap::Args;
use weaver::core::retry::FACTOR_DEFAULT;
use weaver_api::{ConcurrencyPolicy, Gap, Misfire, Overlap, RetryPolicy, ScheduleSpec, Trigger, from_word};

use crate::cli::enqueue::{attempts_help, label, span_ms};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct SpecArgs {
    /// By the clock: a cron expression of 5 fields, or 6 with seconds first; or `every 5m`, `daily at 02:30`,
    /// `once at 2026-03-29T02:30`
    #[arg(long, value_name = "EXPR", conflicts_with = "event")]
    cron: Option<String>,
    /// For every event of this type
    #[arg(long, value_name = "TYPE")]
    event: Option<String>,
    /// The time zone, by its IANA name: needed wherever times of day are named
    #[arg(long, value_name = "ZONE", conflicts_with = "event")]
    tz: Option<String>,
    /// A time that the clock leaves out: shift to the end of the gap, or skip
    #[arg(long, value_name = "RULE", value_parser = from_word::<Gap>, conflicts_with = "event")]
    gap: Option<Gap>,
    /// A time that the clock shows twice: fire the first time, the last, or both
    #[arg(long, value_name = "RULE", value_parser = from_word::<Overlap>, conflicts_with = "event")]
    overlap: Option<Overlap>,
    /// The field of the payload that gets the event
    #[arg(long, value_name = "NAME", conflicts_with = "cron")]
    event_field: Option<String>,
    /// The queue its tasks wait in
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// From 0, the most urgent, to 9
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// How long one execution may take: 30s, 5m
    #[arg(long, value_name = "SPAN", value_parser = span_ms)]
    timeout: Option<u64>,
    #[arg(long, value_name = "COUNT", help = attempts_help())]
    max_attempts: Option<u32>,
    /// How long to wait after a failed attempt: `none`, `fixed:30s`, `exponential:1s:1h` (doubling from 1s to
    /// 1h), `exponential:15s:8h:16` (16 times as long each time)
    #[arg(long, value_name = "RULE", value_parser = backoff)]
    backoff: Option<RetryPolicy>,
    /// A label of its tasks, as NAME=VALUE; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// When its last task has not ended: `allow` another, `forbid` it, or `replace` the last
    #[arg(long, value_name = "POLICY", value_parser = from_word::<ConcurrencyPolicy>)]
    concurrency: Option<ConcurrencyPolicy>,
    /// What becomes of missed fires: `run-once`, `run-all:10`, `skip-after:5m`
    #[arg(long, value_name = "POLICY", value_parser = misfire)]
    misfire: Option<Misfire>,
}

impl SpecArgs {
    /// Whether any of them is given.
    pub(super) fn is_given(&self) -> bool {
        let Self { cron, event, tz, gap, overlap, event_field, queue, .. } = self;
        let Self { priority, timeout, max_attempts, backoff, labels, concurrency, misfire, .. } = self;
        [cron, event, tz, event_field, queue].iter().any(|text| text.is_some())
            || gap.is_some()
            || overlap.is_some()
            || priority.is_some()
            || timeout.is_some()
            || max_attempts.is_some()
            || backoff.is_some()
            || !labels.is_empty()
            || concurrency.is_some()
            || misfire.is_some()
    }

    /// The trigger they name, if they name one.
    pub(super) fn trigger(&self) -> Option<Trigger> {
        let time = self.cron.as_ref().map(|schedule| Trigger::Time {
            schedule: schedule.clone(),
            tz: self.tz.clone(),
            gap: self.gap,
            overlap: self.overlap,
        });
        time.or_else(|| {
            self.event.as_ref().map(|event_type| Trigger::Event { event_type: event_type.clone() })
        })
    }

    /// Changes what is given, and keeps the rest.
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
            // Another time of the same zone, unless another is named.
            (Trigger::Time { schedule, tz, gap, overlap }, None | Some(Trigger::Time { .. })) => {
                if let Some(cron) = &self.cron {
                    schedule.clone_from(cron);
                }
                *tz = self.tz.clone().or(tz.take());
                *gap = self.gap.or(*gap);
                *overlap = self.overlap.or(*overlap);
            }
            (place, Some(trigger)) => *place = trigger,
            (Trigger::Event { .. }, None)
                if self.tz.is_some() || self.gap.is_some() || self.overlap.is_some() =>
            {
                let message = "it waits for events, and events know no time zone";
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
            let factor = factor.parse().map_err(|_| format!("`{factor}` is no whole number"))?;
            exponential(base, cap, factor)
        }
        _ => Err("give `none`, `fixed:30s`, `exponential:1s:1h` or `exponential:15s:8h:16`".to_owned()),
    }
}
