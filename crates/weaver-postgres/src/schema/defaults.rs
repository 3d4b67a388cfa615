//! Defaults by task type for tasks that plain SQL enqueues, generated from core.

use serde_json::json;
use weaver_core::task::TypeDefaults;

use crate::row::RETRY_WHEN_NULL;

/// The SQL function that returns a task type's defaults to `weaver.enqueue`.
pub(super) fn type_defaults_sql() -> String {
    let mut cases = String::new();
    for (task_type, defaults) in &TypeDefaults::SPECIAL {
        let task_type = task_type.replace('\'', "''");
        cases += &format!("        WHEN '{task_type}' THEN {}\n", options_of(defaults));
    }
    let by_session: Vec<_> = TypeDefaults::SPECIAL
        .iter()
        .filter(|(_, defaults)| defaults.is_serial_by_session)
        .map(|(task_type, _)| format!("'{}'", task_type.replace('\'', "''")))
        .collect();
    include_str!("type_defaults.sql")
        .replace("{cases}", cases.trim_end())
        .replace("{general}", &options_of(&TypeDefaults::GENERAL))
        .replace("{by_session}", &by_session.join(", "))
}

/// The defaults as options of `weaver.enqueue`, without a retry policy that NULL stands for.
fn options_of(defaults: &TypeDefaults) -> String {
    let mut options = json!({ "max_attempts": defaults.max_attempts, "max_losses": defaults.max_losses });
    if defaults.retry != RETRY_WHEN_NULL {
        options["retry"] = json!(defaults.retry);
    }
    format!("'{options}'::jsonb")
}
