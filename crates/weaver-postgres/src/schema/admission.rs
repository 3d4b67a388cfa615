//! Placeholders in SQL texts, replaced by conditions and state numbers generated from core, so that no
//! admission rule is written in SQL (ADR-0067).
//!
//! ```text
//! {is_due(r.ready_at, v_now)}   a rule of `weaver_core::admission` over SQL expressions
//! {leasable(v_now)}             of waiting tasks `r`: due, not expired, and its serial key is free
//! {wanted(v_slots)}             of runs `r`: what a lease call with so many slots left asks for
//! {waiting}                     the stored names of the waiting states
//! {number(running)}             the number of a state; {waiting_number(scheduled)}: that of a run before its first start
//! {dispatches}                  the numbers of `dispatch` as rows `d (own)`; also `dispatch_number(word)`
//! {dispatch_default}            the number of the default dispatch
//! {limit_max}                   the largest concurrency limit
//! {charged_failures(i.cause)}   what the end of a running attempt adds to a counter; also `charged_losses`
//! {state_words}                 the seed's word for the number of each state, as branches of a CASE
//! ```

use weaver_core::admission::text::{Dialect, condition};
use weaver_core::lifecycle::table::{Charge, RULES};
use weaver_core::projection::job_run::State;
use weaver_core::task::{Dispatch, TaskState};

use crate::names::cause_word;

/// Whether a task of `ready` may start, apart from its queue's settings.
const LEASABLE: &str = "{is_startable(r.ready_at, {is_unstarted(r.executions)}, :now, r.expires_at)} \
     AND (r.serial_key IS NULL OR NOT weaver.is_gated(p_namespace, r.serial_key, r.id, r.executions, :now))";

/// What a lease call asks for: types, slots, and formats and ids that it can read.
const WANTED: &str = "(p_types IS NULL OR r.task_type = ANY (p_types)) \
     AND {fits_slots({is_fragile(r.losses, r.max_losses)}, :slots)} \
     AND r.format BETWEEN 1 AND p_format AND (p_skip IS NULL OR r.id <> ALL (p_skip))";

/// Replaces the placeholders listed above; other text in braces stays.
pub(crate) fn with_rules(text: &str) -> String {
    // The text before each open brace: placeholders nest.
    let (mut before, mut current) = (Vec::new(), String::new());
    for character in text.chars() {
        match character {
            '{' => before.push(std::mem::take(&mut current)),
            '}' if !before.is_empty() => {
                let inner = std::mem::replace(&mut current, before.pop().unwrap_or_default());
                current += &replacement(&inner).unwrap_or_else(|| format!("{{{inner}}}"));
            }
            _ => current.push(character),
        }
    }
    before.push(current);
    before.join("{")
}

fn replacement(inner: &str) -> Option<String> {
    let (name, arguments) = match inner.strip_suffix(')').and_then(|call| call.split_once('(')) {
        Some((name, arguments)) => (name, split(arguments)),
        None => (inner, Vec::new()),
    };
    match (name, arguments.as_slice()) {
        ("leasable", [now]) => Some(with_rules(&LEASABLE.replace(":now", now))),
        ("wanted", [slots]) => Some(with_rules(&WANTED.replace(":slots", slots))),
        ("waiting", []) => Some(waiting()),
        ("number", [state]) => number(state),
        ("waiting_number", [is_scheduled]) => Some(format!(
            "CASE WHEN {is_scheduled} THEN {} ELSE {} END",
            TaskState::Scheduled.index(),
            TaskState::Queued.index()
        )),
        ("dispatches", []) => Some(dispatches()),
        ("dispatch_default", []) => Some(Dispatch::default().number().to_string()),
        ("dispatch_number", [word]) => Some(dispatch_number(word)),
        ("assign", []) => Some(Dispatch::Assign.number().to_string()),
        ("limit_max", []) => Some(u32::MAX.to_string()),
        ("charged_failures", [cause]) => Some(charged(cause, |charge| charge.failures)),
        ("charged_losses", [cause]) => Some(charged(cause, |charge| charge.losses)),
        ("state_words", []) => Some(state_words()),
        _ => condition(name, &arguments, Dialect::Sql),
    }
}

/// The numbers that `dispatch` of a waiting task may have, as rows.
fn dispatches() -> String {
    let own = Dispatch::ALL.map(|own| format!("({}::smallint)", own.number()));
    format!("(VALUES (0::smallint), {}) AS d (own)", own.join(", "))
}

/// The number of the dispatch with this word; NULL for no word.
fn dispatch_number(word: &str) -> String {
    let branches = Dispatch::ALL.map(|own| format!("WHEN '{}' THEN {}", own.as_str(), own.number()));
    format!("(CASE {word} {} END)::smallint", branches.join(" "))
}

fn waiting() -> String {
    let waiting = TaskState::ALL.into_iter().filter(|state| state.is_waiting());
    let mut words: Vec<_> =
        waiting.map(|state| format!("'{}'", State::project(state, None).as_str())).collect();
    words.dedup();
    words.join(", ")
}

/// What the end of a running attempt for this cause adds to a counter.
fn charged(cause: &str, counter: impl Fn(Charge) -> u32) -> String {
    let ends = RULES.iter().filter(|rule| rule.from == TaskState::Running && counter(rule.verb.charge()) > 0);
    let mut words: Vec<_> =
        ends.filter_map(|rule| rule.cause).map(|cause| format!("'{}'", cause_word(cause))).collect();
    words.sort_unstable();
    words.dedup();
    format!("CASE WHEN {cause} IN ({}) THEN 1 ELSE 0 END", words.join(", "))
}

/// The seed's word for each state; it depends on the cause where the projection does.
fn state_words() -> String {
    let mut text = Vec::new();
    for state in TaskState::ALL {
        let usual = State::project(state, None);
        let mut others: Vec<(State, Vec<String>)> = Vec::new();
        for cause in RULES.iter().filter(|rule| rule.to == state).filter_map(|rule| rule.cause) {
            let (word, name) = (State::project(state, Some(cause)), format!("'{}'", cause_word(cause)));
            if word == usual {
                continue;
            }
            match others.iter_mut().find(|(other, _)| *other == word) {
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name),
                None => others.push((word, vec![name])),
            }
        }
        let branches: Vec<String> = others
            .iter()
            .map(|(word, names)| format!("WHEN p_cause IN ({}) THEN '{word}'", names.join(", ")))
            .collect();
        let word = match branches.is_empty() {
            true => format!("'{usual}'"),
            false => format!("CASE {} ELSE '{usual}' END", branches.join(" ")),
        };
        text.push(format!("        WHEN {} THEN {word}", state.index()));
    }
    text.join("\n")
}

fn number(state: &str) -> Option<String> {
    let found = TaskState::ALL.into_iter().find(|known| known.as_str() == state)?;
    Some(found.index().to_string())
}

/// Arguments, split at commas outside parentheses.
fn split(arguments: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let parts = arguments.split(|character| {
        depth += i32::from(matches!(character, '(' | '[')) - i32::from(matches!(character, ')' | ']'));
        character == ',' && depth == 0
    });
    parts.map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_placeholders_are_replaced_innermost_first() {
        let text =
            "x IN ({waiting}) AND {fits_slots({is_fragile(r.losses, r.max_losses)}, f(1, 2))} = '{}' {other}";
        let expected = "x IN ('PENDING', 'RETRY_SCHEDULED') AND (NOT (r.losses > 0 OR r.max_losses = 0) OR (f(1, 2)) > 0) \
                        = '{}' {other}";
        assert_eq!(with_rules(text), expected);
        assert_eq!(with_rules("{number(running)} {number(none)} } {"), "4 {number(none)} } {");
    }

    #[test]
    fn no_placeholder_is_left_in_the_schema() {
        for step in super::super::migrations("weaver") {
            let names = step
                .sql
                .split('{')
                .skip(1)
                .filter(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()));
            assert_eq!(names.collect::<Vec<_>>(), Vec::<&str>::new());
        }
    }
}
