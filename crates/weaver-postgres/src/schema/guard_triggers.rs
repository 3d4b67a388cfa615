//! Guard triggers: they refuse what the state machine does not allow, whichever client writes it. Generated
//! from core's tables.

use std::fmt::Write as _;

use weaver_core::lifecycle::table::RULES;
use weaver_core::projection::job_run::State;

use super::guard_conditions::{
    MOVED, RENEWED, digest, end_condition, entry_condition, is_terminal, lease_condition, update_condition,
};
use crate::sql::render;

/// A guard trigger of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardTrigger {
    /// Its table, without the schema.
    pub table: String,
    /// Unique per table, not per schema.
    pub name: String,
    /// The `CREATE TRIGGER` statement, without a final semicolon.
    pub create: String,
    /// The statement that enables it for every session.
    pub enable: String,
}

/// Every guard trigger that a schema of this name should have.
pub fn guard_triggers(schema: &str) -> Vec<GuardTrigger> {
    triggers_of(&guards_text(), schema)
}

/// Every allowed transition in seed 004's state names, without duplicates.
pub fn allowed_moves() -> Vec<(State, State)> {
    let mut moves = Vec::new();
    for rule in RULES {
        let pair = (State::project(rule.from, None), State::project(rule.to, rule.cause));
        if !moves.contains(&pair) {
            moves.push(pair);
        }
    }
    moves
}

/// Functions and triggers, each trigger enabled ALWAYS: also in a session whose replication role is replica.
pub(super) fn guards_sql() -> String {
    let mut text = guards_text();
    for trigger in triggers_of(&text, "weaver") {
        let _ = write!(text, "\n{};", trigger.enable); // Writing to a text cannot fail.
    }
    text
}

fn guards_text() -> String {
    let fixed: Vec<&str> = columns().into_iter().filter(|column| !MOVED.contains(column)).collect();
    let by_version: Vec<&str> = MOVED.into_iter().filter(|column| !RENEWED.contains(column)).collect();
    let history: Vec<&str> = columns().into_iter().filter(|column| *column != "log_ref").collect();
    let terminal: Vec<_> =
        State::ALL.iter().filter(|word| is_terminal(**word)).map(|word| format!("'{word}'")).collect();
    include_str!("guard_triggers.sql")
        .replace("{entry_condition}", &entry_condition())
        .replace("{update_condition}", &update_condition())
        .replace("{end_condition}", &end_condition())
        .replace("{digest}", &digest())
        .replace("{lease_condition}", &lease_condition())
        .replace("{version_columns}", &by_version.join(", "))
        .replace("{renewal_columns}", &RENEWED.join(", "))
        .replace("{fixed_columns}", &fixed.join(", "))
        .replace("{history_columns}", &history.join(", "))
        .replace("{terminal}", &terminal.join(", "))
        .replace("{unique_us}", &crate::types::micros(crate::options::UNIQUE_FOR_DEFAULT).to_string())
}

/// The columns of `job_runs`, as its definition lists them.
fn columns() -> Vec<&'static str> {
    let text = include_str!("tables.sql");
    let body = text.split_once("CREATE TABLE weaver.job_runs (").and_then(|(_, rest)| rest.split_once("\n)"));
    let lines = body.map_or("", |(body, _)| body).lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("--") && !line.starts_with("CONSTRAINT"))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

fn triggers_of(text: &str, schema: &str) -> Vec<GuardTrigger> {
    let begin =
        |part: &str| part.find("\nCREATE TRIGGER ").or_else(|| part.find("\nCREATE CONSTRAINT TRIGGER "));
    let statements = text.split(";\n").map(|part| format!("\n{part}"));
    statements
        .filter_map(|part| Some(part[begin(&part)? + 1..].to_owned()))
        .filter_map(|statement| {
            let name = statement.split("TRIGGER ").nth(1)?.split_whitespace().next()?.to_owned();
            let table = statement.split(" ON weaver.").nth(1)?.split_whitespace().next()?.to_owned();
            let enable = format!("ALTER TABLE weaver.{table} ENABLE ALWAYS TRIGGER {name}");
            let (create, enable) =
                (render(schema, statement.trim_end_matches([';', '\n'])), render(schema, &enable));
            Some(GuardTrigger { table, name, create, enable })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::guard_conditions::{EMPTY_AT_FIRST, HELD_BY_VERSION, LEASE, PROGRESS};
    use super::*;

    #[test]
    fn every_column_that_moves_is_a_column_and_every_other_is_part_of_the_spec() {
        let columns = columns();
        for column in
            MOVED.iter().chain(&EMPTY_AT_FIRST).chain(&HELD_BY_VERSION).chain(&LEASE).chain(&PROGRESS)
        {
            assert!(columns.contains(column), "{column}");
        }
        let fixed: Vec<_> = columns.iter().filter(|column| !MOVED.contains(column)).collect();
        assert!(fixed.contains(&&"id") && fixed.contains(&&"payload") && fixed.len() >= 23, "{fixed:?}");
    }

    #[test]
    fn every_trigger_of_the_text_is_listed_with_its_table() {
        let listed = guard_triggers("weaver");
        let written = guards_text().matches("\nCREATE TRIGGER ").count() + 1;
        assert_eq!(listed.len(), written);
        assert!(listed.iter().all(|trigger| trigger.create.contains(&trigger.table)), "{listed:?}");
        assert!(!guards_text().contains('{'), "every place is filled in");
    }
}
