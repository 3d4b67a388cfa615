//! Constraints that derived schemas cannot express: the bounds of names, numbers and timestamps, and mutually
//! exclusive fields. With them the document rejects what the server rejects.

use serde_json::{Map, Value, json};
use weaver_core::name::NAME_MAX_BYTES;
use weaver_core::task::TypeDefaults;

use super::limits;

/// Names have no control characters.
const NAME: &str = "^[^\\x00-\\x1f\\x7f-\\x9f]+$";
/// Timestamps that fit a record, in any UTC offset.
const INSTANT: &str = "^(19(7[1-9]|[89][0-9])|[2-8][0-9]{3})-";

pub(super) fn refine(document: &mut Value) {
    // A test checks that every limit has its field.
    let _unplaced = limits::write(document);
    walk(document);
    let schemas = &mut document["components"]["schemas"];
    for name in ["LeaseRequest", "WaitForWork", "Heartbeat"] {
        for field in ["queues", "types"] {
            schemas[name]["properties"][field]["items"] = named();
        }
    }
    for name in ["NewTask", "TaskTemplate"] {
        let labels = &mut schemas[name]["properties"]["labels"];
        labels["propertyNames"] = named();
        labels["additionalProperties"] = named();
    }
    for name in ["NewTask", "TaskTemplate"] {
        add_defaults(&mut schemas[name]["properties"]);
    }
    let name = NAME.trim_start_matches('^').trim_end_matches("+$");
    schemas["StreamAppend"]["properties"]["stream"]["pattern"] =
        json!(format!("^(stats|task/{name}{{1,{NAME_MAX_BYTES}}}/(0|[1-9][0-9]{{0,8}}))$"));
    // No token reaches Weaver's internal namespaces.
    schemas["NewToken"]["properties"]["namespaces"]["items"] =
        json!({ "allOf": [named(), { "not": { "pattern": "^weaver\\." } }] });
    // Roles that cannot enqueue cannot have `may_exec`.
    schemas["NewToken"]["not"] = json!({
        "required": ["may_exec", "role"],
        "properties": { "may_exec": { "const": true }, "role": { "enum": ["viewer", "worker"] } },
    });
    for name in ["RetryPolicy", "Continuing", "EnqueueRequest", "Trigger", "Misfire"] {
        closed(&mut schemas[name]);
    }
    schemas["NewTask"]["not"] = json!({ "anyOf": [
        together(&["payload", "payload_hex"]),
        together(&["delay_ms", "run_at"]),
    ] });
    schemas["Finish"]["not"] = json!({ "anyOf": [
        together(&["result", "result_hex"]),
        { "allOf": [together(&["retry_after_ms"]), is_fatal()] },
        misplaced("result", &["succeeded"]),
        misplaced("result_hex", &["succeeded"]),
        misplaced("error", &["failed", "cancelled"]),
        misplaced("retry_after_ms", &["failed", "snoozed"]),
        { "allOf": [is_fatal(), other_than(&["failed"])] },
    ] });
}

/// Adds core's defaults by task type to the descriptions of fields.
fn add_defaults(fields: &mut Value) {
    let numbers = [
        ("priority", TypeDefaults::in_words(|of| of.priority.get().into())),
        ("max_attempts", TypeDefaults::in_words(|of| of.max_attempts)),
        ("max_losses", TypeDefaults::in_words(|of| of.max_losses)),
        ("retry", json!(TypeDefaults::GENERAL.retry).to_string()),
    ];
    for (name, default) in numbers {
        let description = &mut fields[name]["description"];
        let said = description.as_str().unwrap_or_default();
        *description = json!(format!("{said} Default: {default}.").trim_start());
    }
}

fn named() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": NAME_MAX_BYTES, "pattern": NAME })
}

/// All of these fields are present.
fn together(fields: &[&str]) -> Value {
    let given: Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), json!({ "not": { "type": "null" } }))).collect();
    json!({ "required": fields, "properties": given })
}

fn is_fatal() -> Value {
    json!({ "required": ["fatal"], "properties": { "fatal": { "const": true } } })
}

fn other_than(outcomes: &[&str]) -> Value {
    json!({ "required": ["outcome"], "properties": { "outcome": { "not": { "enum": outcomes } } } })
}

/// The field is present, but does not apply to the outcome.
fn misplaced(field: &str, outcomes: &[&str]) -> Value {
    json!({ "allOf": [together(&[field]), other_than(outcomes)] })
}

/// Enum variants reject unknown fields too.
fn closed(schema: &mut Value) {
    let Some(variants) = schema["oneOf"].as_array_mut() else { return };
    for variant in variants.iter_mut().filter(|variant| variant["type"] == "object") {
        variant["additionalProperties"] = json!(false);
        if let Some(fields) = variant["properties"].as_object_mut() {
            for field in fields.values_mut().filter(|field| field["type"] == "object") {
                field["additionalProperties"] = json!(false);
            }
        }
    }
}

fn walk(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(walk),
        Value::Object(fields) => {
            bound(fields);
            fields.values_mut().for_each(walk);
        }
        _ => {}
    }
}

fn bound(schema: &mut Map<String, Value>) {
    if is(schema, "integer") {
        // The formats of OpenAPI are signed; ours are not.
        let max = match schema.remove("format").as_ref().and_then(Value::as_str) {
            Some("int32") => json!(u32::MAX),
            _ => json!(u64::MAX),
        };
        schema.entry("maximum").or_insert(max);
    }
    if is(schema, "string") && schema.get("minLength") == Some(&json!(1)) {
        limits::bound_name(schema);
        schema.entry("pattern").or_insert_with(|| json!(NAME));
    }
    if schema.get("format") == Some(&json!("date-time")) {
        schema.insert("pattern".to_owned(), json!(INSTANT));
    }
}

fn is(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => false,
    }
}
