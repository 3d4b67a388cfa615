//! Misfire policies: which missed runs are caught up on after a downtime. A pure decision from the stored
//! next fire, the time and the policy.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::json_number;
use weaver_core::time::Timestamp;

use crate::calendar::Schedule;

/// The most runs that one decision creates, whatever the policy asks for.
pub const RUNS_MAX: u32 = 1000;
/// Missed fires that are counted exactly; beyond it, a count is a lower bound.
pub const COUNTED_MAX: u64 = 10_000;

/// The catch-up policy when several fires are due, or one is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Misfire {
    /// One run for the latest fire; the others are merged into it.
    #[default]
    #[serde(deserialize_with = "json_number::no_fields")]
    RunOnce,
    /// A run for each of the latest `max` fires, oldest first.
    RunAll {
        /// From 1 to [`RUNS_MAX`].
        #[serde(deserialize_with = "json_number::integer")]
        max: u32,
    },
    /// A run for each fire that is at most so late, of the latest [`RUNS_MAX`]; the others are skipped.
    SkipAfter {
        /// The greatest lateness, in seconds.
        #[serde(deserialize_with = "json_number::integer")]
        seconds: u64,
    },
}

/// The runs to create now, and the next fire to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The instants of the runs to create, oldest first.
    pub runs: Vec<Timestamp>,
    /// How many fires were merged into another run or skipped.
    pub without_run: u64,
    /// Whether `without_run` is exact or a lower bound.
    pub is_exact: bool,
    /// The next fire; `None`: the schedule is finished.
    pub next: Option<Timestamp>,
}

/// Decides about a schedule whose stored next fire is `due`. Before that instant it creates no run.
pub fn plan(schedule: &Schedule, due: Timestamp, now: Timestamp, policy: Misfire) -> Plan {
    if due > now {
        return Plan { runs: Vec::new(), without_run: 0, is_exact: true, next: Some(due) };
    }
    let (oldest, max) = match policy {
        Misfire::RunOnce => (due, 1),
        Misfire::RunAll { max } => (due, max.min(RUNS_MAX)),
        Misfire::SkipAfter { seconds } => (now.saturating_sub(Duration::from_secs(seconds)), RUNS_MAX),
    };
    let mut runs = latest(schedule, due, now, max as usize);
    runs.retain(|run| *run >= oldest);
    let (fires, is_exact) = count(schedule, due, now);
    let next = schedule.next_after(now).map(|fire| fire.at);
    Plan { without_run: fires.saturating_sub(runs.len() as u64), is_exact, runs, next }
}

/// At most `max` of the latest fires from `due` to `now`, oldest first. Searches back from `now` in steps
/// that double, so that a year of missed seconds costs no more than a minute of them.
fn latest(schedule: &Schedule, due: Timestamp, now: Timestamp, max: usize) -> Vec<Timestamp> {
    let mut back = Duration::from_secs(1);
    loop {
        let start = now.saturating_sub(back).max(due);
        let mut found: Vec<Timestamp> = between(schedule, due, start, now).collect();
        if found.len() >= max || start == due {
            return found.split_off(found.len().saturating_sub(max));
        }
        back = back.saturating_mul(2);
    }
}

fn count(schedule: &Schedule, due: Timestamp, now: Timestamp) -> (u64, bool) {
    let counted = between(schedule, due, due, now).take(COUNTED_MAX as usize + 1).count() as u64;
    (counted.min(COUNTED_MAX), counted <= COUNTED_MAX)
}

/// The fires from `start` to `now`. `due` always counts: it may have been stored before the schedule was
/// edited.
fn between(
    schedule: &Schedule,
    due: Timestamp,
    start: Timestamp,
    now: Timestamp,
) -> impl Iterator<Item = Timestamp> {
    let first = if start == due {
        Some(due)
    } else {
        let before = Timestamp::from_micros(start.as_micros() - 1);
        schedule.next_after(before).map(|fire| fire.at)
    };
    std::iter::successors(first, |fire| schedule.next_after(*fire).map(|fire| fire.at))
        .take_while(move |fire| *fire <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::ScheduleSpec;

    fn at(text: &str) -> Timestamp {
        format!("2026-06-01T{text}Z").parse().unwrap()
    }

    fn after_an_hour(policy: Misfire) -> Plan {
        let schedule = Schedule::new(ScheduleSpec::new("every 10m")).unwrap();
        plan(&schedule, at("10:00:00"), at("11:05:00"), policy)
    }

    #[test]
    fn before_its_time_nothing_is_done() {
        let schedule = Schedule::new(ScheduleSpec::new("every 10m")).unwrap();
        let plan = plan(&schedule, at("10:00:00"), at("09:59:59"), Misfire::RunOnce);
        assert_eq!((plan.runs, plan.without_run, plan.next), (vec![], 0, Some(at("10:00:00"))));
    }

    #[test]
    fn run_once_makes_one_run_for_the_latest_and_counts_the_others() {
        let plan = after_an_hour(Misfire::RunOnce);
        assert_eq!((plan.runs, plan.without_run, plan.is_exact), (vec![at("11:00:00")], 6, true));
        assert_eq!(plan.next, Some(at("11:10:00")));
    }

    #[test]
    fn run_all_makes_the_latest_up_to_its_limit_oldest_first() {
        let plan = after_an_hour(Misfire::RunAll { max: 3 });
        assert_eq!(plan.runs, [at("10:40:00"), at("10:50:00"), at("11:00:00")]);
        assert_eq!(plan.without_run, 4);
        assert_eq!(after_an_hour(Misfire::RunAll { max: 100 }).runs.len(), 7);
        assert_eq!(after_an_hour(Misfire::RunAll { max: 100 }).without_run, 0);
    }

    #[test]
    fn skip_after_skips_what_is_later_than_that() {
        let plan = after_an_hour(Misfire::SkipAfter { seconds: 15 * 60 });
        assert_eq!((plan.runs, plan.without_run), (vec![at("10:50:00"), at("11:00:00")], 5));
        let plan = after_an_hour(Misfire::SkipAfter { seconds: 60 });
        assert_eq!((plan.runs, plan.without_run, plan.next), (vec![], 7, Some(at("11:10:00"))));
    }

    #[test]
    fn years_of_missed_seconds_are_bounded_work_and_the_count_is_a_lower_bound() {
        let schedule = Schedule::new(ScheduleSpec::new("* * * * * *").tz("Europe/Berlin")).unwrap();
        let (due, now) = ("2016-01-01T00:00:00Z".parse().unwrap(), at("12:00:00"));
        let plan = plan(&schedule, due, now, Misfire::RunAll { max: 2 });
        assert_eq!(plan.runs, [at("11:59:59"), at("12:00:00")]);
        assert_eq!((plan.is_exact, plan.without_run), (false, COUNTED_MAX - 2));
        assert_eq!(plan.next, Some(at("12:00:01")));
    }

    #[test]
    fn a_stored_fire_happens_even_if_the_schedule_was_changed_since() {
        let schedule = Schedule::new(ScheduleSpec::new("daily at 18:00").tz("UTC")).unwrap();
        let plan = plan(&schedule, at("10:00:00"), at("10:00:01"), Misfire::RunOnce);
        assert_eq!((plan.runs, plan.next), (vec![at("10:00:00")], Some(at("18:00:00"))));
    }

    #[test]
    fn a_schedule_that_is_over_has_no_next_fire() {
        let schedule = Schedule::new(ScheduleSpec::new("once at 2026-06-01T10:00:00Z")).unwrap();
        let plan = plan(&schedule, at("10:00:00"), at("10:00:00"), Misfire::RunOnce);
        assert_eq!((plan.runs.len(), plan.next), (1, None));
    }

    #[test]
    fn a_policy_is_data() {
        let text = r#"{"kind":"run_all","max":3}"#;
        let policy: Misfire = serde_json::from_str(text).unwrap();
        assert_eq!(
            (policy, serde_json::to_string(&policy).unwrap().as_str()),
            (Misfire::RunAll { max: 3 }, text)
        );
    }
}
