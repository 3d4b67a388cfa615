//! The decision about a due schedule: pure, from its document, its unfinished runs and the time.

use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use super::work::Work;
use crate::calendar::Schedule;
use crate::definition::{ConcurrencyPolicy, Notice, NoticeKind, PendingRun, Trigger};
use crate::misfire::{Misfire, Plan, plan};
use crate::run::{event_key, time_key};

/// Decides about due fires.
pub(super) fn fires(work: &mut Work, live: &[TaskId], now: Timestamp) {
    let Trigger::Time(spec) = &work.stored.spec.trigger else {
        work.stored.state.next_fire_at = None;
        return;
    };
    let Some(due) = work.stored.state.next_fire_at.filter(|_| work.stored.spec.enabled) else {
        work.stored.state.next_fire_at = None;
        return;
    };
    let schedule = match Schedule::new(spec.clone()) {
        Ok(schedule) => schedule,
        Err(bad) => {
            // It was valid when it was written, but a newer time zone database may lack its zone.
            note(work, now, NoticeKind::Unreadable, 1, true, format!("{bad}; the schedule is disabled"));
            work.stored.spec.enabled = false;
            work.stored.state.next_fire_at = None;
            return;
        }
    };
    let plan = plan(&schedule, due, now, work.stored.spec.misfire);
    if plan.without_run > 0 {
        note_misfire(work, &plan, due, now);
    }
    let name = work.name().to_owned();
    let runs = plan.runs.iter().map(|instant| PendingRun {
        key: time_key(&name, *instant),
        scheduled_for: Some(*instant),
        event: None,
    });
    admit(work, runs.collect(), live, now, "scheduled run");
    let last = work.stored.state.pending.last().and_then(|run| run.scheduled_for);
    work.stored.state.last_fire_at = last.or(work.stored.state.last_fire_at);
    work.stored.state.next_fire_at = plan.next;
    if plan.next.is_none() {
        work.stored.spec.enabled = false;
    }
}

/// Decides about events, in their order.
pub(super) fn events(work: &mut Work, events: &[String], live: &[TaskId], now: Timestamp) {
    let name = work.name().to_owned();
    let runs = events.iter().map(|event| PendingRun {
        key: event_key(&name, event),
        scheduled_for: None,
        event: Some(event.clone()),
    });
    admit(work, runs.collect(), live, now, "event");
    work.stored.state.decided_events.extend(events.iter().cloned());
}

/// Decides about a manual run; the caller has checked the concurrency policy.
pub(super) fn manual_run(work: &mut Work, live: &[TaskId], now: Timestamp) {
    // With the version in the key, a repeated attempt is the same run, and another manual run is not.
    let key = format!("manual:{}:{}", work.name(), work.version);
    admit(work, vec![PendingRun { key, scheduled_for: None, event: None }], live, now, "manual run");
}

/// Keeps the runs that the concurrency policy admits.
fn admit(work: &mut Work, mut runs: Vec<PendingRun>, live: &[TaskId], now: Timestamp, what: &str) {
    let wanted = runs.len();
    match work.stored.spec.concurrency_policy {
        ConcurrencyPolicy::Allow => {}
        ConcurrencyPolicy::Forbid => {
            runs.truncate(usize::from(live.is_empty()));
            if let Some(running) = live.first() {
                let reason = format!("task {running} has not ended, and the policy forbids concurrent runs");
                note_skipped(work, now, wanted, what, &reason);
            } else {
                note_skipped(work, now, wanted.saturating_sub(1), what, "the policy forbids concurrent runs");
            }
        }
        ConcurrencyPolicy::Replace => {
            runs.drain(..wanted.saturating_sub(1));
            note_skipped(work, now, wanted.saturating_sub(1), what, "replaced by the newest");
            if !(live.is_empty() || runs.is_empty()) {
                work.stored.state.replaces = live.to_vec();
                let ids: Vec<String> = live.iter().map(ToString::to_string).collect();
                let reason = format!("cancelled by the policy, replaced by a newer run: {}", ids.join(", "));
                note(work, now, NoticeKind::Replaced, live.len() as u64, true, reason);
            }
        }
    }
    work.stored.state.pending = runs;
}

fn note_skipped(work: &mut Work, now: Timestamp, count: usize, what: &str, reason: &str) {
    if count > 0 {
        let ending = if count == 1 { "" } else { "s" };
        let reason = format!("skipped {count} {what}{ending}: {reason}");
        note(work, now, NoticeKind::Skipped, count as u64, true, reason);
    }
}

fn note_misfire(work: &mut Work, plan: &Plan, due: Timestamp, now: Timestamp) {
    let count = plan.without_run;
    let at_least = if plan.is_exact { "" } else { "at least " };
    let ending = if count == 1 && plan.is_exact { "" } else { "s" };
    let (kind, rule) = match work.stored.spec.misfire {
        Misfire::RunOnce => (NoticeKind::Merged, "merged into one by policy run_once".to_owned()),
        Misfire::RunAll { max } => {
            (NoticeKind::Skipped, format!("skipped as more than the {max} of policy run_all"))
        }
        Misfire::SkipAfter { seconds } => {
            (NoticeKind::Skipped, format!("skipped as later than the {seconds} s of policy skip_after"))
        }
    };
    let reason = format!("{at_least}{count} missed run{ending} between {due} and {now} {rule}");
    note(work, now, kind, count, plan.is_exact, reason);
}

/// Adds a notice for the journal, and as the schedule's last.
pub(super) fn note(
    work: &mut Work,
    at: Timestamp,
    kind: NoticeKind,
    count: u64,
    is_exact: bool,
    reason: String,
) {
    let notice = Notice { at, definition: work.name().to_owned(), kind, count, is_exact, reason };
    work.stored.state.last_notice = Some(notice.clone());
    work.stored.state.notices.push(notice);
}
