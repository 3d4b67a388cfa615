//! The limits in the OpenAPI document, from the constants that validation uses.

use std::time::Duration;

use serde_json::{Map, Value, json};
use weaver_core::lease::{LEASE_BATCH_MAX, LEASE_TTL_MAX, LEASE_TTL_MIN};
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::NAME_MAX_BYTES;
use weaver_core::ports::Beat;
use weaver_core::task::fields::{Field, Kind, OPTIONS, RETRY, SUBJECT, TRACE};
use weaver_merge::domain::PRIORITY_LOWEST;
use weaver_scheduler::definition::{DEFINITION_NAME_MAX_BYTES, EVENT_TYPE_MAX_BYTES};
use weaver_scheduler::event::DEDUPE_KEY_MAX_BYTES;
use weaver_scheduler::misfire::RUNS_MAX;

use crate::api::merge::{AUDITED, HISTORY_MAX, LINKS};
use crate::api::schedules::FIRES_MAX;
use crate::api::tokens::EXPIRES_MAX_MS;
use crate::security::NAMESPACES_MAX;

#[derive(Clone, Copy)]
enum Limit {
    Number { min: u64, max: u64 },
    Bytes { max: usize },
    Items { max: usize },
}

const fn number(min: u64, max: u64) -> Limit {
    Limit::Number { min, max }
}

const fn ms(span: Duration) -> u64 {
    // At most a year.
    span.as_millis() as u64
}

const TTL: Limit = number(ms(LEASE_TTL_MIN), ms(LEASE_TTL_MAX));
const NAMES: Limit = Limit::Items { max: Beat::NAMES_MAX };
const PRIORITY: Limit = number(0, PRIORITY_LOWEST as u64);
const FIRES: Limit = number(1, FIRES_MAX as u64);

/// Fields of requests, beside those that core defines as data. Fields of enum variants are listed under the
/// enum's schema.
const FIELDS: &[(&str, &str, Limit)] = &[
    ("LeaseRequest", "max", number(1, LEASE_BATCH_MAX as u64)),
    ("LeaseRequest", "ttl_ms", TTL),
    ("LeaseRequest", "queues", NAMES),
    ("StartAssignedRequest", "max", number(1, LEASE_BATCH_MAX as u64)),
    ("StartAssignedRequest", "ttl_ms", TTL),
    ("Lease", "ttl_ms", TTL),
    ("WaitForWork", "queues", NAMES),
    ("Heartbeat", "queues", NAMES),
    ("Heartbeat", "types", NAMES),
    ("Heartbeat", "project_root", Limit::Bytes { max: Beat::PROJECT_ROOT_MAX_BYTES }),
    ("NewEvent", "event_type", Limit::Bytes { max: EVENT_TYPE_MAX_BYTES }),
    ("NewEvent", "dedupe_key", Limit::Bytes { max: DEDUPE_KEY_MAX_BYTES }),
    ("Trigger", "event_type", Limit::Bytes { max: EVENT_TYPE_MAX_BYTES }),
    ("Misfire", "max", number(1, RUNS_MAX as u64)),
    ("PreviewRequest", "count", FIRES),
    ("NewMergeEntry", "priority", PRIORITY),
    ("PutMergePriority", "priority", PRIORITY),
    ("NewToken", "namespaces", Limit::Items { max: NAMESPACES_MAX }),
    ("NewToken", "expires_in_ms", number(1, EXPIRES_MAX_MS)),
];

/// Query parameters, by the end of the path and their name; the first match applies.
const PARAMETERS: &[(&str, &str, Limit)] = &[
    ("/chain", "limit", number(1, LINKS.1 as u64)),
    ("/verify", "limit", number(1, AUDITED.1 as u64)),
    ("", "limit", number(1, PAGE_MAX as u64)),
    ("", "last", number(1, PAGE_MAX as u64)),
    ("", "history", number(0, HISTORY_MAX as u64)),
    ("/upcoming", "count", FIRES),
];

/// Writes every limit into the document. Returns those without a field: it was renamed or removed.
pub(super) fn write(document: &mut Value) -> Vec<String> {
    let mut unplaced = Vec::new();
    parameters(document);
    let schemas = &mut document["components"]["schemas"];
    for (schema, name, limit) in FIELDS {
        let mut places = properties(&mut schemas[*schema], name);
        if places.is_empty() {
            unplaced.push(format!("{schema}.{name}"));
        }
        places.iter_mut().for_each(|place| set(place, *limit));
    }
    for field in SUBJECT.iter().chain(OPTIONS) {
        for schema in ["NewTask", "TaskTemplate"] {
            properties(&mut schemas[schema], field.name)
                .into_iter()
                .for_each(|place| set_kind(place, field.kind));
        }
    }
    if let Kind::Tagged { variants } = RETRY {
        let fields = variants.iter().flat_map(|variant| variant.fields.iter().chain(variant.optional));
        set_fields(&mut schemas["RetryPolicy"], fields);
    }
    if let Kind::Object { required, optional } = TRACE {
        set_fields(&mut schemas["Trace"], required.iter().chain(optional));
    }
    unplaced
}

/// A string with `minLength` 1 is a name, unless it has a `maxLength`.
pub(super) fn bound_name(schema: &mut Map<String, Value>) {
    schema.entry("maxLength").or_insert_with(|| json!(NAME_MAX_BYTES));
}

fn parameters(document: &mut Value) {
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for operation in item.as_object_mut().into_iter().flat_map(Map::values_mut) {
            for parameter in
                operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
            {
                let is_this = |(end, name, _): &&(&str, &str, Limit)| {
                    path.ends_with(end) && parameter["name"] == **name
                };
                if let Some((_, _, limit)) = PARAMETERS.iter().find(is_this) {
                    set(&mut parameter["schema"], *limit);
                }
                if path.contains("/schedules/{name}") && parameter["name"] == "name" {
                    set(&mut parameter["schema"], Limit::Bytes { max: DEFINITION_NAME_MAX_BYTES });
                }
            }
        }
    }
}

/// The schemas of a field, in an object or in the variants of an enum.
fn properties<'a>(schema: &'a mut Value, name: &str) -> Vec<&'a mut Value> {
    let Some(fields) = schema.as_object_mut() else { return Vec::new() };
    let mut found = Vec::new();
    for (keyword, value) in fields {
        match keyword.as_str() {
            "properties" => found.extend(value.get_mut(name)),
            "oneOf" => {
                let variants = value.as_array_mut().into_iter().flatten();
                found.extend(variants.filter_map(|variant| variant.get_mut("properties")?.get_mut(name)));
            }
            _ => {}
        }
    }
    found
}

fn set_fields<'a>(schema: &mut Value, fields: impl Iterator<Item = &'a Field>) {
    for field in fields {
        properties(schema, field.name).into_iter().for_each(|place| set_kind(place, field.kind));
    }
}

fn set_kind(schema: &mut Value, kind: Kind) {
    match kind {
        Kind::Integer { min, max } => set(schema, number(min.into(), max.into())),
        Kind::Span { min, max } => set(schema, number(ms(min), ms(max))),
        Kind::Header { max_bytes } => schema["pattern"] = json!(format!("^[ -~]{{0,{max_bytes}}}$")),
        Kind::Labels { max } => schema["maxProperties"] = json!(max),
        // Names are bounded by `bound_name`; the others have no limit, or a schema of their own.
        Kind::Name
        | Kind::Choice { .. }
        | Kind::Instant
        | Kind::Boolean
        | Kind::Object { .. }
        | Kind::Tagged { .. } => {}
    }
}

fn set(schema: &mut Value, limit: Limit) {
    match limit {
        Limit::Number { min, max } => (schema["minimum"], schema["maximum"]) = (json!(min), json!(max)),
        Limit::Bytes { max } => schema["maxLength"] = json!(max),
        Limit::Items { max } => schema["maxItems"] = json!(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_its_field() {
        let mut document = crate::api::document();
        assert_eq!(write(&mut document), [""; 0]);
    }
}
