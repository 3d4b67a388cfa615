//! Validation of tasks that plain SQL enqueues, generated from core's table of fields.

use weaver_core::limits::PAYLOAD_MAX_BYTES_DEFAULT;
use weaver_core::name::RESERVED_PREFIX;
use weaver_core::task::fields::{Field, Kind, NAME_BYTES, OPTIONS, PRIORITY, SUBJECT, Variant};
use weaver_core::task::{ContentType, TypeDefaults};
use weaver_core::time::Timestamp;

use crate::options::UNIQUE_FOR_DEFAULT;
use crate::types::micros;

/// The functions that validate the options of `weaver.enqueue`.
pub(super) fn validation_sql() -> String {
    let fields: Vec<String> = OPTIONS.iter().filter_map(|field| function(*field)).collect();
    let functions = format!("{}\n{}", fields.join("\n"), check_options());
    include_str!("validation.sql")
        .replace("{name_min}", &NAME_BYTES.start().to_string())
        .replace("{name_max}", &NAME_BYTES.end().to_string())
        .replace("{instant_min}", &Timestamp::MIN.to_string())
        .replace("{instant_max}", &Timestamp::MAX.to_string())
        .replace("{arguments}", &array(SUBJECT.iter().map(|field| field.name).chain(["payload"])))
        .replace("{fields}", &functions)
}

/// `weaver.enqueue`, with the limits of its arguments.
pub(super) fn enqueue_sql(text: &str) -> String {
    let (min, max) = match PRIORITY {
        Kind::Integer { min, max } => (min, max),
        _ => (0, 0),
    };
    let delay = SUBJECT.iter().find_map(|field| match field.kind {
        Kind::Span { max, .. } => Some(micros(max)),
        _ => None,
    });
    text.replace("{priority_min}", &min.to_string())
        .replace("{priority_default}", &TypeDefaults::GENERAL.priority.get().to_string())
        .replace("{priority_max}", &max.to_string())
        .replace("{delay_max_us}", &delay.unwrap_or_default().to_string())
        .replace("{payload_max}", &PAYLOAD_MAX_BYTES_DEFAULT.to_string())
        .replace("{reserved}", &reserved())
        .replace("{unique_us}", &micros(UNIQUE_FOR_DEFAULT).to_string())
}

/// The reserved prefix, in two parts: `render` would replace it as a schema name.
fn reserved() -> String {
    let (head, tail) = RESERVED_PREFIX.split_at(RESERVED_PREFIX.len() - 1);
    format!("'{head}' || '{tail}'")
}

fn array<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    format!("ARRAY[{}]::text[]", names.join(", "))
}

/// The validation function of a field that is an object.
fn function(field: Field) -> Option<String> {
    let name = field.name;
    let body = match field.kind {
        Kind::Object { required, optional } => format!(
            "    PERFORM weaver.check_members(p_field, p_value, {}, {});\n    RETURN {};",
            array(required.iter().map(|field| field.name)),
            array(optional.iter().map(|field| field.name)),
            object(None, required, optional, Absence::MissingOrNull)
        ),
        Kind::Tagged { variants } => tagged(variants),
        _ => return None,
    };
    Some(format!(
        "\nCREATE FUNCTION weaver.check_{name}(p_field text, p_value jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$\n\
         BEGIN\n{body}\nEND\n$$;"
    ))
}

fn tagged(variants: &[Variant]) -> String {
    let mut text =
        "    IF jsonb_typeof(p_value) IS DISTINCT FROM 'object' OR jsonb_typeof(p_value -> 'kind') IS DISTINCT FROM \
         'string' THEN\n        PERFORM weaver.refuse_field(p_field, p_value::text, 'an object with a kind');\n\
         \x20   END IF;\n    CASE p_value ->> 'kind'\n"
            .to_owned();
    for variant in variants {
        let names = ["kind"].into_iter().chain(variant.fields.iter().map(|field| field.name));
        text += &format!(
            "    WHEN '{}' THEN\n        PERFORM weaver.check_members(p_field, p_value, {}, {});\n        RETURN {};\n",
            variant.kind,
            array(names),
            array(variant.optional.iter().map(|field| field.name)),
            object(Some(variant.kind), variant.fields, variant.optional, Absence::Missing)
        );
    }
    let kinds: Vec<&str> = variants.iter().map(|variant| variant.kind).collect();
    text + &format!(
        "    ELSE\n        PERFORM weaver.refuse_field(p_field || '.kind', p_value ->> 'kind', 'one of {}');\n        \
         RETURN NULL;\n    END CASE;",
        kinds.join(", ")
    )
}

/// How an optional member is omitted. As in the JSON API, one with a default of its own cannot be null.
#[derive(Clone, Copy)]
enum Absence {
    Missing,
    MissingOrNull,
}

/// An expression that builds the object from validated members, as the column stores it.
fn object(kind: Option<&str>, required: &[Field], optional: &[Field], absence: Absence) -> String {
    let member = |field: &Field| {
        let value = format!("p_value -> '{}'", field.name);
        (value.clone(), check(&format!("p_field || '.{}'", field.name), *field, &value))
    };
    let mut members: Vec<String> = kind.map(|kind| format!("'kind', '{kind}'")).into_iter().collect();
    for field in required {
        members.push(format!("'{}', {}", field.name, member(field).1));
    }
    for field in optional {
        let (value, checked) = member(field);
        let given = match absence {
            Absence::Missing => format!("p_value ? '{}'", field.name),
            Absence::MissingOrNull => format!("{value} <> 'null'"),
        };
        members.push(format!("'{}', CASE WHEN {given} THEN {checked} END", field.name));
    }
    format!("jsonb_build_object({})", members.join(", "))
}

/// The call that validates a value.
fn check(of: &str, field: Field, value: &str) -> String {
    match field.kind {
        Kind::Name => format!("weaver.check_name({of}, {value})"),
        Kind::Integer { min, max } => format!("weaver.check_integer({of}, {value}, {min}, {max})"),
        Kind::Span { min, max } => {
            format!("weaver.check_integer({of}, {value}, {}, {})", min.as_millis(), max.as_millis())
        }
        Kind::Instant => format!("weaver.check_instant({of}, {value})"),
        Kind::Choice { words } => {
            format!("weaver.check_choice({of}, {value}, {})", array(words.iter().copied()))
        }
        Kind::Boolean => format!("weaver.check_boolean({of}, {value})"),
        Kind::Header { max_bytes } => format!("weaver.check_header({of}, {value}, {max_bytes})"),
        Kind::Labels { max } => format!("weaver.check_labels({of}, {value}, {max})"),
        Kind::Object { .. } | Kind::Tagged { .. } => format!("weaver.check_{}({of}, {value})", field.name),
    }
}

/// The function that validates the options and returns them by column. A null option counts as omitted,
/// except in labels, as in the JSON API.
fn check_options() -> String {
    let mut members = Vec::new();
    for field in OPTIONS {
        let value = format!("p_options -> '{}'", field.name);
        let checked = check(&format!("'{}'", field.name), *field, &value);
        let given = match field.kind {
            Kind::Labels { .. } => format!("p_options ? '{}'", field.name),
            _ => format!("{value} <> 'null'"),
        };
        let (column, checked) = match field.name {
            "content_type" => ("content_type", format!("nullif({checked}, '{}')", ContentType::JSON)),
            "timeout_ms" => ("timeout_us", format!("{checked} * 1000")),
            name => (name, checked),
        };
        members.push(format!("'{column}', CASE WHEN {given} THEN {checked} END"));
    }
    format!(
        "\nCREATE FUNCTION weaver.check_options(p_options jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$\nBEGIN\n    \
         PERFORM weaver.check_members('options', p_options, '{{}}', {});\n    \
         RETURN jsonb_strip_nulls(jsonb_build_object(\n        {}));\nEND\n$$;",
        array(OPTIONS.iter().map(|field| field.name)),
        members.join(",\n        ")
    )
}
