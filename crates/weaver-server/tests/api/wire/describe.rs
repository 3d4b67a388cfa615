//! The OpenAPI document as text, without its prose: a line per operation, parameter, field and variant.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Prose, which may change freely, and keywords that are rendered separately.
const LEFT_OUT: [&str; 12] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "description",
    "enum",
    "items",
    "oneOf",
    "properties",
    "required",
    "title",
    "type",
];

pub(super) fn document(document: &Value) -> String {
    let mut out = String::from("## Operations\n");
    for (path, item) in object(&document["paths"]) {
        for (method, operation) in object(item) {
            let _ = writeln!(out, "\n{} {path}", method.to_uppercase());
            describe_operation(&mut out, operation);
        }
    }
    out.push_str("\n## Types\n");
    for (name, schema) in object(&document["components"]["schemas"]) {
        out.push('\n');
        describe(&mut out, 0, name, schema);
    }
    out
}

fn describe_operation(out: &mut String, operation: &Value) {
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let mark = if parameter["required"] == true { "" } else { "?" };
        let label = format!("{} {}{mark}", text(&parameter["in"]), text(&parameter["name"]));
        describe(out, 2, &label, &parameter["schema"]);
    }
    for (kind, content) in object(&operation["requestBody"]["content"]) {
        describe(out, 2, &format!("body {kind}"), &content["schema"]);
    }
    for (status, answer) in
        object(&operation["responses"]).into_iter().filter(|(status, _)| *status != "default")
    {
        let contents = object(&answer["content"]);
        if contents.is_empty() {
            let _ = writeln!(out, "  {status}");
        }
        for (kind, content) in contents {
            describe(out, 2, &format!("{status} {kind}"), &content["schema"]);
        }
    }
}

/// A schema, and one level deeper its parts.
fn describe(out: &mut String, indent: usize, label: &str, schema: &Value) {
    let empty = Map::new();
    let fields = schema.as_object().unwrap_or(&empty);
    let head = [kind(fields), words(fields), limits(fields)].concat();
    let _ = writeln!(out, "{:indent$}{label}:{head}", "");
    let inner = indent + 2;
    let required: Vec<&str> = fields.get("required").map(strings).unwrap_or_default();
    for (name, field) in fields.get("properties").map(object).unwrap_or_default() {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        describe(out, inner, &format!("{name}{mark}"), field);
    }
    for (keyword, label) in [("items", "[]"), ("additionalProperties", "{*}")] {
        match fields.get(keyword) {
            None => {}
            Some(Value::Bool(is_open)) => {
                let said = if *is_open { "any" } else { "none" };
                let _ = writeln!(out, "{:inner$}{label}: {said}", "");
            }
            Some(schema) => describe(out, inner, label, schema),
        }
    }
    for keyword in ["oneOf", "anyOf", "allOf"] {
        for variant in fields.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            describe(out, inner, keyword, variant);
        }
    }
}

fn kind(fields: &Map<String, Value>) -> String {
    if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
        return format!(" {}", name.trim_start_matches("#/components/schemas/"));
    }
    match fields.get("type") {
        None => String::new(),
        Some(Value::String(one)) => format!(" {one}"),
        Some(many) => format!(" {}", strings(many).join(" or ")),
    }
}

fn words(fields: &Map<String, Value>) -> String {
    match fields.get("enum") {
        None => String::new(),
        Some(words) => format!(" = {}", strings(words).join(" | ")),
    }
}

fn limits(fields: &Map<String, Value>) -> String {
    let limits = fields.iter().filter(|(keyword, _)| !LEFT_OUT.contains(&keyword.as_str()));
    let mut limits: Vec<_> = limits.map(|(keyword, value)| format!(" {keyword}={value}")).collect();
    // By name: the order in the document does not matter.
    limits.sort();
    limits.concat()
}

fn object(value: &Value) -> Vec<(&String, &Value)> {
    value.as_object().into_iter().flatten().collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("null")
}
