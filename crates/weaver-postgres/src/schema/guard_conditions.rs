//! The conditions of the guard triggers on inserts, updates and ends, generated from core's tables.

use std::fmt::Write as _;

use weaver_core::lifecycle::table::{Presence, RULES, Rule, Shape};
use weaver_core::projection::job_run::State;
use weaver_core::task::TaskState;
use weaver_core::task::fields::{Kind, MAX_ATTEMPTS, MAX_LOSSES, NAME_BYTES, PRIORITY};

use super::admission::with_rules;
use super::guard_triggers::allowed_moves;
use crate::names::cause_word;

/// The columns that transitions, renewals and progress change. All others are fixed at enqueue.
pub(super) const MOVED: [&str; 28] = [
    "ready_at",
    "renewals",
    "failures",
    "losses",
    "updated_at",
    "first_started_at",
    "finished_at",
    "lease_started_at",
    "lease_expires_at",
    "lease_ttl_us",
    "leader_epoch",
    "assigned_at",
    "assigned_epoch",
    "continuation_check_deadline_at",
    "version",
    "attempt",
    "executions",
    "progress_fraction",
    "lease_token",
    "state",
    "cause",
    "outcome",
    "assigned_worker_id",
    "continuation_state",
    "progress_message",
    "last_error",
    "log_ref",
    "result",
];

/// Those of them that are NULL in a new run.
pub(super) const EMPTY_AT_FIRST: [&str; 18] = [
    "first_started_at",
    "finished_at",
    "lease_started_at",
    "lease_expires_at",
    "lease_ttl_us",
    "leader_epoch",
    "assigned_at",
    "assigned_epoch",
    "continuation_check_deadline_at",
    "progress_fraction",
    "lease_token",
    "cause",
    "outcome",
    "assigned_worker_id",
    "progress_message",
    "last_error",
    "log_ref",
    "result",
];

/// Those of them that neither a renewal nor the end of a cancellation hold changes.
pub(super) const HELD_BY_VERSION: [&str; 16] = [
    "cause",
    "outcome",
    "ready_at",
    "updated_at",
    "first_started_at",
    "finished_at",
    "lease_started_at",
    "assigned_worker_id",
    "assigned_at",
    "assigned_epoch",
    "attempt",
    "executions",
    "failures",
    "losses",
    "last_error",
    "result",
];

pub(super) const LEASE: [&str; 4] = ["lease_token", "lease_expires_at", "lease_ttl_us", "leader_epoch"];
pub(super) const PROGRESS: [&str; 4] =
    ["progress_fraction", "progress_message", "continuation_state", "continuation_check_deadline_at"];

/// The condition on an inserted row.
pub(super) fn entry_condition() -> String {
    let mut parts = vec![
        "NEW.state = 'PENDING' AND NEW.version = 1 AND NEW.continuation_state = 'NONE'".to_owned(),
        "NEW.renewals | NEW.attempt | NEW.executions | NEW.failures | NEW.losses = 0".to_owned(),
        "NEW.updated_at = NEW.created_at AND NEW.ready_at >= NEW.created_at".to_owned(),
        with_rules("NEW.scheduled = (NOT {is_due(NEW.ready_at, NEW.created_at)})"),
    ];
    let empty = EMPTY_AT_FIRST.map(|column| format!("NEW.{column}"));
    parts.push(format!("num_nonnulls({}) = 0", empty.join(", ")));
    for (column, kind) in [("priority", PRIORITY), ("max_attempts", MAX_ATTEMPTS), ("max_losses", MAX_LOSSES)]
    {
        if let Kind::Integer { min, max } = kind {
            parts.push(format!("NEW.{column} BETWEEN {min} AND {max}"));
        }
    }
    let (min, max) = (NAME_BYTES.start(), NAME_BYTES.end());
    for column in ["namespace", "queue", "task_type"] {
        parts.push(format!("octet_length(NEW.{column}) BETWEEN {min} AND {max}"));
    }
    parts.iter().map(|part| format!("        {part}")).collect::<Vec<_>>().join("\n        AND ")
}

/// The condition on a step from a row `o` to a row `n`: a renewal, the end of a cancellation hold, or an
/// allowed transition to a well-formed row.
pub(super) fn update_condition() -> String {
    let same = unchanged("o", "n", ["state"].into_iter().chain(HELD_BY_VERSION));
    let lease = unchanged("o", "n", LEASE.into_iter().filter(|column| *column != "lease_expires_at"));
    let (all_lease, progress) = (unchanged("o", "n", LEASE), unchanged("o", "n", PROGRESS));
    let cleared: Vec<String> = LEASE.iter().map(|column| format!("n.{column} IS NULL")).collect();
    format!(
        "        CASE WHEN n.version = o.version THEN {same} AND CASE o.state\n\
         \x20           WHEN 'RUNNING' THEN {lease} AND (n.renewals = o.renewals + 1\n\
         \x20               OR n.renewals = o.renewals AND {all_lease} AND {progress})\n\
         \x20           ELSE n.renewals = o.renewals AND {progress} AND ({all_lease}\n\
         \x20               OR o.state = 'CANCELED' AND {}) END\n\
         \x20       WHEN n.version = o.version + 1 THEN n.renewals = o.renewals AND\n{}\n\
         \x20       ELSE false END\n        AND\n{}",
        cleared.join(" AND "),
        move_condition("o", "n"),
        shape_condition("n"),
    )
}

/// The condition on a transition by core's table: states, cause, counters, and the holder.
fn move_condition(old: &str, new: &str) -> String {
    let mut text = format!("            CASE {old}.state\n");
    // The most frequent source states first.
    for from in [State::Pending, State::Running, State::RetryScheduled, State::Assigned, State::Orphaned] {
        let _ = writeln!(text, "            WHEN '{from}' THEN CASE {new}.state"); // Writing to a text cannot fail.
        let targets = allowed_moves().into_iter().filter(|(source, _)| *source == from).map(|(_, to)| to);
        for to in targets {
            let _ =
                writeln!(text, "                WHEN '{to}' THEN {}", target_condition(from, to, old, new));
        }
        text += "                ELSE false END\n";
    }
    text + "            ELSE false END"
}

fn target_condition(from: State, to: State, old: &str, new: &str) -> String {
    let rules =
        |rule: &&Rule| State::project(rule.from, None) == from && State::project(rule.to, rule.cause) == to;
    let mut verbs: Vec<(Vec<&Rule>, String)> = Vec::new();
    for rule in RULES.iter().filter(rules) {
        let counted = counted(rule, old, new);
        match verbs.iter_mut().find(|(_, other)| *other == counted) {
            Some((same, _)) => same.push(rule),
            None => verbs.push((vec![rule], counted)),
        }
    }
    let each: Vec<String> = verbs
        .iter()
        .map(|(rules, counted)| format!("{} AND {counted}", cause_condition(rules, new)))
        .collect();
    let mut text = if each.len() == 1 { each[0].clone() } else { format!("({})", each.join(" OR ")) };
    let is_only_scheduled = RULES.iter().filter(rules).all(|rule| rule.from == TaskState::Scheduled);
    if from == State::Pending && is_only_scheduled {
        text += &format!(" AND {old}.scheduled");
    }
    if from == to {
        text += &format!(" AND {}", unchanged(old, new, ["cause"]));
    }
    text + &holder_condition(from, to, old, new)
}

fn cause_condition(rules: &[&Rule], row: &str) -> String {
    let mut words: Vec<String> =
        rules.iter().filter_map(|rule| rule.cause.map(|cause| format!("'{}'", cause_word(cause)))).collect();
    words.sort_unstable();
    words.dedup();
    if words.is_empty() {
        return format!("{row}.cause IS NULL");
    }
    format!("{row}.cause IN ({})", words.join(", "))
}

/// The counters after a rule, and `ready_at`.
fn counted(rule: &Rule, old: &str, new: &str) -> String {
    let charge = rule.verb.charge();
    let counters = [
        ("attempt", charge.attempt),
        ("executions", charge.executions),
        ("failures", charge.failures),
        ("losses", charge.losses),
    ];
    let counters = counters.map(|(column, more)| match more {
        0 => format!("{new}.{column} = {old}.{column}"),
        more => format!("{new}.{column} = {old}.{column} + {more}"),
    });
    let due = match (rule.from.is_waiting(), rule.to.is_waiting()) {
        (true, true) => format!(" AND {new}.ready_at <= {old}.ready_at"),
        (false, true) => String::new(),
        (_, false) => format!(" AND {new}.ready_at = {old}.ready_at"),
    };
    counters.join(" AND ") + &due
}

/// The holder afterwards, as far as it follows from the holder before.
fn holder_condition(from: State, to: State, old: &str, new: &str) -> String {
    let first_start = match to {
        State::Running => {
            format!("{new}.first_started_at = coalesce({old}.first_started_at, {new}.first_started_at)")
        }
        _ => unchanged(old, new, ["first_started_at"]),
    };
    let holder = match (from, to) {
        (State::Assigned, State::Running) => format!(
            " AND {} AND {new}.leader_epoch = {old}.assigned_epoch",
            unchanged(old, new, ["assigned_worker_id", "assigned_at", "assigned_epoch"])
        ),
        (_, State::Running) => {
            format!(" AND {new}.assigned_at IS NULL AND coalesce({new}.leader_epoch, 0) = 0")
        }
        (State::Running, State::Canceled) => format!(
            " AND {} AND ({new}.lease_token IS NULL OR {} AND coalesce({new}.leader_epoch, 0) = coalesce({old}.leader_epoch, 0))",
            unchanged(old, new, ["assigned_worker_id", "lease_started_at"]),
            unchanged(old, new, ["lease_token", "lease_expires_at", "lease_ttl_us"])
        ),
        (_, to) if is_terminal(to) => {
            format!(
                " AND {new}.lease_token IS NULL AND {}",
                unchanged(old, new, ["assigned_worker_id", "lease_started_at"])
            )
        }
        _ => String::new(),
    };
    format!(" AND {first_start}{holder}")
}

/// The condition on the columns of each state, by core's shapes.
fn shape_condition(row: &str) -> String {
    let mut text = format!("            CASE {row}.state\n");
    let live = [State::Running, State::RetryScheduled, State::Pending, State::Assigned, State::Orphaned];
    for word in live.into_iter().chain(State::ALL.iter().copied().filter(|word| is_terminal(*word))) {
        let state = TaskState::ALL.into_iter().find(|state| projects_to(*state, word));
        let Some(shape) = state.map(TaskState::shape) else { continue };
        let _ = writeln!(text, "            WHEN '{word}' THEN {}", carried(row, word, shape)); // As above.
    }
    text + "            ELSE false END"
}

fn carried(row: &str, word: State, shape: Shape) -> String {
    let none = |columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|column| format!("{row}.{column}")).collect();
        format!("num_nonnulls({}) = 0", columns.join(", "))
    };
    let whole = |columns: &[&str]| none(columns).replace("num_nonnulls", "num_nulls");
    let either = |columns: &[&str]| format!("({} OR {})", none(columns), whole(columns));
    let ended = shape.finished_at == Presence::Always;
    let mut parts = vec![match shape.finished_at {
        Presence::Never => none(&["finished_at", "outcome"]),
        Presence::Always => whole(&["finished_at"]),
        Presence::Maybe => "true".to_owned(),
    }];
    parts.push(match shape.lease {
        Presence::Always => whole(&[
            "assigned_worker_id",
            "lease_token",
            "lease_started_at",
            "lease_expires_at",
            "lease_ttl_us",
        ]),
        Presence::Never if ended => none(&["lease_token", "lease_expires_at", "lease_ttl_us"]),
        Presence::Never => {
            none(&["lease_token", "lease_started_at", "lease_expires_at", "lease_ttl_us", "leader_epoch"])
        }
        Presence::Maybe => either(&["lease_token", "lease_expires_at", "lease_ttl_us"]),
    });
    parts.push(match shape.assignment {
        Presence::Always => whole(&["assigned_worker_id", "assigned_at", "assigned_epoch"]),
        Presence::Never if ended => none(&["assigned_at", "assigned_epoch"]),
        Presence::Never => none(&["assigned_worker_id", "assigned_at", "assigned_epoch"]),
        Presence::Maybe => either(&["assigned_at", "assigned_epoch"]),
    });
    parts.push(match word {
        State::Running => format!(
            "({row}.continuation_state = 'CONFIRMING') = ({row}.continuation_check_deadline_at IS NOT NULL)"
        ),
        _ => format!("{row}.continuation_state = 'NONE' AND {row}.continuation_check_deadline_at IS NULL"),
    });
    parts.join(" AND ")
}

/// The condition that columns are equal in both rows.
fn unchanged<'a>(old: &str, new: &str, columns: impl IntoIterator<Item = &'a str>) -> String {
    let columns: Vec<&str> = columns.into_iter().collect();
    let of =
        |row: &str| columns.iter().map(|column| format!("{row}.{column}")).collect::<Vec<_>>().join(", ");
    match columns.len() {
        1 => format!("{} IS NOT DISTINCT FROM {}", of(new), of(old)),
        _ => format!("({}) IS NOT DISTINCT FROM ({})", of(new), of(old)),
    }
}

fn projects_to(state: TaskState, word: State) -> bool {
    let causes = RULES.iter().filter(|rule| rule.to == state).map(|rule| rule.cause);
    causes.chain([None]).any(|cause| State::project(state, cause) == word)
}

pub(super) fn is_terminal(word: State) -> bool {
    TaskState::ALL.into_iter().filter(|state| state.is_terminal()).any(|state| projects_to(state, word))
}
