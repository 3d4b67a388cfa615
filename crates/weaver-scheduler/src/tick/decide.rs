//! What a definition does now: pure, from what is stored, the runs that have not ended, and the time.

use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use super::work::Work;
use crate::calendar::Schedule;
use crate::definition::{ConcurrencyPolicy, Notice, NoticeKind, PendingRun, Trigger};
use crate::misfire::{Misfire, Plan, plan};
use crate::run::{event_key, time_key};

/// Decides about the fires that are due.
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
            // It was checked when it was written; a zone can go with a newer table of zones.
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
    admit(work, runs.collect(), live, now, "fire");
    let last = work.stored.state.pending.last().and_then(|run| run.scheduled_for);
    work.stored.state.last_fire_at = last.or(work.stored.state.last_fire_at);
    work.stored.state.next_fire_at = plan.next;
    if plan.next.is_none() {
        work.stored.spec.enabled = false;
    }
}

/// Decides about events, in the order they came.
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

/// Decides about a run by hand; the caller has seen to it that it is allowed.
pub(super) fn by_hand(work: &mut Work, live: &[TaskId], now: Timestamp) {
    // The version makes the key: no two runs by hand are one, and a repeated try is.
    let key = format!("manual:{}:{}", work.name(), work.version);
    admit(work, vec![PendingRun { key, scheduled_for: None, event: None }], live, now, "run by hand");
}

/// Keeps of these runs what the overlap policy lets through.
fn admit(work: &mut Work, mut runs: Vec<PendingRun>, live: &[TaskId], now: Timestamp, what: &str) {
    let wanted = runs.len();
    match work.stored.spec.concurrency_policy {
        ConcurrencyPolicy::Allow => {}
        ConcurrencyPolicy::Forbid => {
            runs.truncate(usize::from(live.is_empty()));
            if let Some(running) = live.first() {
                let why = format!("task {running} has not ended, and the policy forbids two runs at once");
                note_skipped(work, now, wanted, what, &why);
            } else {
                note_skipped(
                    work,
                    now,
                    wanted.saturating_sub(1),
                    what,
                    "the policy forbids two runs at once",
                );
            }
        }
        ConcurrencyPolicy::Replace => {
            runs.drain(..wanted.saturating_sub(1));
            note_skipped(work, now, wanted.saturating_sub(1), what, "the newest replaces them");
            if !(live.is_empty() || runs.is_empty()) {
                work.stored.state.replaces = live.to_vec();
                let ids: Vec<String> = live.iter().map(ToString::to_string).collect();
                let why = format!("cancelled by the policy in favour of a newer run: {}", ids.join(", "));
                note(work, now, NoticeKind::Replaced, live.len() as u64, true, why);
            }
        }
    }
    work.stored.state.pending = runs;
}

fn note_skipped(work: &mut Work, now: Timestamp, count: usize, what: &str, why: &str) {
    if count > 0 {
        let ending = if count == 1 { "" } else { "s" };
        let why = format!("{count} {what}{ending} without a run: {why}");
        note(work, now, NoticeKind::Skipped, count as u64, true, why);
    }
}

fn note_misfire(work: &mut Work, plan: &Plan, due: Timestamp, now: Timestamp) {
    let count = plan.without_run;
    let at_least = if plan.is_exact { "" } else { "at least " };
    let ending = if count == 1 && plan.is_exact { "" } else { "s" };
    let (what, rule) = match work.stored.spec.misfire {
        Misfire::RunOnce => (NoticeKind::Merged, "are one run by policy run_once".to_owned()),
        Misfire::RunAll { max } => {
            (NoticeKind::Skipped, format!("are more than the {max} of policy run_all"))
        }
        Misfire::SkipAfter { seconds } => {
            (NoticeKind::Skipped, format!("are later than the {seconds} s of policy skip_after"))
        }
    };
    let why = format!(
        "nobody was there between {due} and {now}: {at_least}{count} fire{ending} without a run of their own {rule}"
    );
    note(work, now, what, count, plan.is_exact, why);
}

/// Remembers something for the journal, and for whoever looks at the definition.
pub(super) fn note(
    work: &mut Work,
    at: Timestamp,
    what: NoticeKind,
    count: u64,
    is_exact: bool,
    why: String,
) {
    let notice = Notice { at, definition: work.name().to_owned(), what, count, is_exact, why };
    work.stored.state.last_notice = Some(notice.clone());
    work.stored.state.notices.push(notice);
}
