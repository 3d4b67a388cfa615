//! Guard triggers: they refuse what the state machine does not allow, whichever client writes it. Generated
//! from core's tables.

use std::fmt::Write as _;

use weaver_core::lifecycle::table::RULES;
use weaver_core::projection::job_run::State;

use super::admission::with_rules;
use super::guard_conditions::{MOVED, entry_condition, update_condition};
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
    // The call stack then names them with their schema, also in sessions that have it in their search path.
    for name in WRITERS.iter().chain(&VIEW_WRITERS) {
        let _ = write!(text, "\nALTER FUNCTION weaver.{name} SET search_path = pg_catalog, pg_temp;");
    }
    text
}

/// The tables that only Weaver's functions write, and why they are not truncated.
const PHYSICAL: [(&str, &str, &str); 8] = [
    ("tasks", "tasks are deleted by retention", "use weaver tasks purge"),
    ("ready", "waiting tasks are never truncated", "cancel them with weaver tasks cancel"),
    ("leases", "running tasks are never truncated", "cancel them with weaver tasks cancel"),
    ("ended", "finished tasks are deleted by retention", "use weaver tasks purge"),
    ("progress", "progress is deleted with its task", "use weaver tasks purge"),
    ("task_labels", "labels are deleted with their task", "use weaver tasks purge"),
    ("closed_attempts", "attempts are deleted with their task", "use weaver tasks purge"),
    ("pending_audit", "only retention deletes audit entries", "wait for their retention"),
];

/// The functions that write the physical tables.
const WRITERS: [&str; 23] = [
    "enqueue_uniform",
    "enqueue_many",
    "start",
    "drop_empty",
    "finish",
    "complete",
    "end_held",
    "retry",
    "retry_held",
    "leave",
    "split",
    "renew_members",
    "renew_singles",
    "renew",
    "take_out",
    "put_in",
    "move_task",
    "write_run",
    "confirm_stopped",
    "remove_tasks",
    "forget",
    "audit_enqueue",
    "number_audit",
];

fn guards_text() -> String {
    let fixed: Vec<&str> = columns().into_iter().filter(|column| !MOVED.contains(column)).collect();
    let fixed_of =
        |row: &str| fixed.iter().map(|column| format!("{row}.{column}")).collect::<Vec<_>>().join(", ");
    let writers: Vec<_> = WRITERS.iter().chain(&VIEW_WRITERS).map(|name| format!("'{name}'")).collect();
    let tables = include_str!("guard_triggers.sql")
        .replace("{physical_guards}", &physical_guards())
        .replace("{writers}", &format!("ARRAY[{}]", writers.join(", ")));
    let views = with_rules(include_str!("guard_views.sql"))
        .replace("{entry_condition}", &entry_condition())
        .replace("{update_condition}", &update_condition())
        .replace("{fixed_columns_of(NEW)}", &fixed_of("NEW"))
        .replace("{fixed_columns_of(OLD)}", &fixed_of("OLD"))
        .replace("{unique_us}", &crate::types::micros(crate::options::UNIQUE_FOR_DEFAULT).to_string());
    tables + &views + &with_rules(include_str!("places.sql"))
}

/// The triggers of hand-written SQL, which write as well.
const VIEW_WRITERS: [&str; 3] = ["insert_by_hand", "update_by_hand", "delete_by_hand"];

fn physical_guards() -> String {
    let mut text = String::new();
    for (table, why, hint) in PHYSICAL {
        text += &format!(
            "CREATE TRIGGER guard_write BEFORE INSERT OR UPDATE OR DELETE ON weaver.{table} FOR EACH STATEMENT\n    \
             EXECUTE FUNCTION weaver.guard_write();\n\
             CREATE TRIGGER guard_truncate BEFORE TRUNCATE ON weaver.{table} FOR EACH STATEMENT\n    \
             EXECUTE FUNCTION weaver.refuse_change('{why}', '{hint}');\n"
        );
    }
    text
}

/// The columns of `job_runs`, as the view lists them.
fn columns() -> Vec<&'static str> {
    COLUMNS.split_whitespace().collect()
}

const COLUMNS: &str = "id created_at ready_at retry_of scheduled_for expires_at timeout_us renewals max_attempts \
    max_losses failures losses priority scheduled updated_at first_started_at finished_at lease_started_at \
    lease_expires_at lease_ttl_us leader_epoch assigned_at assigned_epoch continuation_check_deadline_at version \
    attempt executions format progress_fraction lease_token state cause outcome assigned_worker_id \
    continuation_state namespace queue task_type \
    serial_key idempotency_key job_definition_id task_group_id session_id content_type labels retry trace \
    progress_message last_error log_ref result payload dispatch";

fn triggers_of(text: &str, schema: &str) -> Vec<GuardTrigger> {
    let begin =
        |part: &str| part.find("\nCREATE TRIGGER ").or_else(|| part.find("\nCREATE CONSTRAINT TRIGGER "));
    let statements = text.split(";\n").map(|part| format!("\n{part}"));
    statements
        // Without its INSTEAD OF trigger a view cannot be written: it guards nothing.
        .filter(|part| !part.contains(" INSTEAD OF "))
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
    fn every_trigger_on_a_table_is_listed_with_its_table() {
        let listed = guard_triggers("weaver");
        let text = guards_text();
        let plain = text.matches("\nCREATE TRIGGER ").count() - text.matches(" INSTEAD OF ").count();
        let written = plain + text.matches("\nCREATE CONSTRAINT TRIGGER ").count();
        assert_eq!(listed.len(), written);
        assert!(listed.iter().all(|trigger| trigger.create.contains(&trigger.table)), "{listed:?}");
    }
}
