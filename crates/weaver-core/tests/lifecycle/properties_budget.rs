//! Properties of the counters, and of `max_attempts` and `max_losses` (G5).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use weaver_core::id::TaskId;
use weaver_core::lifecycle::{Command, Verb, decide, failed_with};
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::retry::{DELAY_MAX, FACTOR_MAX, RetryPolicy};
use weaver_core::task::{Cause, TaskRecord, TaskState};

use crate::plan::{Event, Seen, plans};
use crate::properties::config;

/// The four counters of a record.
fn counters(record: &TaskRecord) -> [u32; 4] {
    [record.attempt, record.executions, record.failures, record.losses]
}

/// What a verb adds to each of them, by section 3 of the design.
fn charges(verb: Verb) -> [u32; 4] {
    match verb {
        Verb::Lease => [1, 1, 0, 0],
        Verb::Assign => [1, 0, 0, 0],
        Verb::Start => [0, 1, 0, 0],
        Verb::Fail | Verb::TimeOut => [0, 0, 1, 0],
        Verb::ExpireLease | Verb::Orphan => [0, 0, 0, 1],
        Verb::Release | Verb::Snooze => [0, 0, 0, 0],
        Verb::Recall | Verb::ReleaseOrphan | Verb::AbandonOrphan => [0, 0, 0, 0],
        Verb::Succeed | Verb::Cancel | Verb::Expire | Verb::RunNow => [0, 0, 0, 0],
    }
}

/// Whether a failure reported like this asks for no retry.
fn gives_up(record: &TaskRecord, command: &Command) -> bool {
    let by_policy = record.spec.retry == RetryPolicy::None;
    match command {
        Command::Finish { outcome: Outcome::Failed { retry, .. }, .. } => match retry {
            Retry::Never => true,
            Retry::ByPolicy => by_policy,
            Retry::After(_) => false,
        },
        _ => by_policy,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_counters_match_the_events(plan in plans()) {
        let mut expected = [0; 4];
        for Seen { event, after, .. } in plan.live() {
            if let Event::Moved(_, transition) = &event {
                let charged = charges(transition.verb);
                let charge = transition.verb.charge();
                let of_table = [charge.attempt, charge.executions, charge.failures, charge.losses];
                prop_assert_eq!(of_table, charged, "{:?}", transition.verb);
                expected = std::array::from_fn(|index| expected[index] + charged[index]);
            }
            prop_assert_eq!(counters(&after), expected, "attempt, executions, failures, losses after {:?}", event);
        }
    }

    #[test]
    fn failures_end_a_task_exactly_when_their_budget_is_spent(plan in plans()) {
        for Seen { before, event, after, .. } in plan.live() {
            prop_assert!(after.failures <= after.spec.max_attempts);
            let Event::Moved(command, transition) = &event else { continue };
            if !matches!(transition.verb, Verb::Fail | Verb::TimeOut) {
                continue;
            }
            let is_last = after.failures == after.spec.max_attempts || gives_up(&before, command);
            let expected = if is_last { TaskState::Dead } else { TaskState::RetryScheduled };
            prop_assert_eq!(after.state, expected, "failure {} of {}", after.failures, after.spec.max_attempts);
        }
    }

    #[test]
    fn losses_end_a_task_exactly_when_their_budget_is_spent(plan in plans()) {
        for Seen { event, after, .. } in plan.live() {
            let one_too_many = after.spec.max_losses + 1;
            prop_assert!(after.losses <= one_too_many);
            let is_dead_of_it = after.state == TaskState::Dead && after.cause == Some(Cause::Lost);
            prop_assert!(!is_dead_of_it || after.losses == one_too_many);
            let Event::Moved(_, transition) = &event else { continue };
            if transition.verb == Verb::ExpireLease {
                prop_assert_eq!(is_dead_of_it, after.losses == one_too_many, "loss {}", after.losses);
            }
            if after.losses == one_too_many {
                // An orphan waits for its leader to abandon it; otherwise it can only be cancelled.
                let is_over = after.state.is_terminal() || after.state == TaskState::Orphaned;
                prop_assert!(is_over, "{} after loss {}", after.state, after.losses);
            }
        }
    }

    #[test]
    fn the_wait_after_a_failure_stays_within_the_policy(plan in plans()) {
        for Seen { now, before, event, after } in plan.live() {
            let Event::Moved(command, transition) = &event else { continue };
            let is_failure = matches!(transition.verb, Verb::Fail | Verb::TimeOut);
            if !is_failure || after.state != TaskState::RetryScheduled {
                continue;
            }
            let wait = after.ready_at.since(now);
            let (least, most) = match command {
                Command::Finish { outcome: Outcome::Failed { retry: Retry::After(asked), .. }, .. } => (*asked, *asked),
                _ => bounds(&before.spec.retry, after.failures),
            };
            prop_assert!((least..=most).contains(&wait), "{:?} is not within {:?} to {:?}", wait, least, most);
        }
    }

    #[test]
    fn a_delay_is_the_full_one_and_with_jitter_at_least_three_quarters_of_it(
        id: u64,
        jitter: bool,
        failures in 1..10_000_u32,
        factor in 1..=FACTOR_MAX,
        base in 0..DELAY_MAX.as_millis() as u64,
        cap in 0..DELAY_MAX.as_millis() as u64,
    ) {
        let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
        let policy = RetryPolicy::Exponential { base, factor, cap, jitter };
        let delay = policy.delay(TaskId(id), failures).unwrap();
        let (least, most) = bounds(&policy, failures);
        prop_assert!((least..=most).contains(&delay) && delay <= cap);
        prop_assert_eq!(policy.delay(TaskId(id), failures), Some(delay), "it is the same every time");
    }

    #[test]
    fn a_delay_function_supplies_a_delay_and_nothing_else(
        plan in plans(),
        answer in prop::option::of((0..2 * DELAY_MAX.as_millis() as u64).prop_map(Duration::from_millis)),
    ) {
        for Seen { after: record, .. } in plan.live() {
            let Some(lease) = record.current_lease() else { continue };
            let asked = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&asked);
            let function = move |failures: u32, error: &str| {
                noted.lock().unwrap().push((failures, error.to_owned()));
                answer
            };
            let outcome = failed_with(&record, "no route to host", &function);
            let transition = decide(&record, Command::Finish { lease, outcome }, record.updated_at).unwrap();
            let failures = record.failures + 1;
            let asked = std::mem::take(&mut *asked.lock().unwrap());
            prop_assert_eq!(asked, [(failures, "no route to host".to_owned())]);
            let own_word = answer.map(|delay| delay.min(DELAY_MAX));
            let expected = own_word.or_else(|| record.spec.retry.delay(record.key.id, failures));
            let expected = expected.filter(|_| failures < record.spec.max_attempts);
            prop_assert_eq!(transition.ready_after, expected);
            prop_assert_eq!(transition.to == TaskState::Dead, expected.is_none());
            prop_assert_eq!((transition.verb, transition.cause), (Verb::Fail, Some(Cause::Failed)));
            prop_assert_eq!(transition.counters.failures, failures);
        }
    }
}

/// The shortest and the longest delay after failure number `failures`; computed apart from the policy, in
/// `f64`.
fn bounds(policy: &RetryPolicy, failures: u32) -> (Duration, Duration) {
    match *policy {
        RetryPolicy::None => (Duration::ZERO, Duration::ZERO),
        RetryPolicy::Fixed { delay } => (delay, delay),
        RetryPolicy::Exponential { base, factor, cap, jitter } => {
            let full = base.as_secs_f64() * f64::from(factor).powf(f64::from(failures - 1));
            // Timestamps are whole microseconds, and so many steps of `f64` are not exact: hence the
            // allowance.
            let slack = Duration::from_micros(2);
            let most = if base.is_zero() || full < cap.as_secs_f64() { full } else { cap.as_secs_f64() };
            let most = Duration::from_secs_f64(if base.is_zero() { 0.0 } else { most });
            let least = if jitter { most * 3 / 4 } else { most };
            (least.saturating_sub(slack), most + slack)
        }
    }
}
