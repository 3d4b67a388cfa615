//! One argument of an allowed command, with placeholders for the task's values. A value always stays within
//! its argument: there is no shell, no splitting, no quoting.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;

/// An argument, parsed: text and placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(String),
}

impl Template {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Value(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    pub(super) fn uses(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Whether this is `--`, after which programs parse no options.
    pub(super) fn ends_options(&self) -> bool {
        self.0 == [Part::Text("--".to_owned())]
    }

    /// Fills in the values. A value at the beginning must not turn the argument into an option, unless `--`
    /// came before.
    pub(super) fn fill(
        &self,
        values: &BTreeMap<String, Value>,
        options_are_over: bool,
    ) -> Result<String, String> {
        let mut argument = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => argument.push_str(text),
                Part::Value(name) => {
                    let value = text(name, values.get(name))?;
                    if argument.is_empty() && value.starts_with('-') && !options_are_over {
                        return Err(format!(
                            "`values.{name}` begins with `-` and could be parsed as an option; \
                             the operator can allow it by an argument `--` before it"
                        ));
                    }
                    argument.push_str(&value);
                }
            }
        }
        Ok(argument)
    }
}

fn text(name: &str, value: Option<&Value>) -> Result<String, String> {
    match value {
        Some(Value::String(text)) if text.contains('\0') => {
            Err(format!("`values.{name}` contains a NUL character"))
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        Some(_) => Err(format!("`values.{name}` must be a string, a number or a boolean")),
        None => Err(format!("`values.{name}` is missing")),
    }
}

impl FromStr for Template {
    type Err = String;

    fn from_str(template: &str) -> Result<Self, String> {
        if template.contains('\0') {
            return Err("an argument contains a NUL character".to_owned());
        }
        let (mut parts, mut text) = (Vec::new(), String::new());
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                text.push_str(brace);
                rest = after;
                continue;
            }
            let wrong =
                || format!("`{template}`: write `{{name}}` for a value, `{{{{` and `}}}}` for braces");
            let (name, after) = after.split_once('}').filter(|_| brace == "{").ok_or_else(wrong)?;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(wrong());
            }
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::Value(name.to_owned()));
            rest = after;
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str, value: Value) -> Result<String, String> {
        let values = BTreeMap::from([("v".to_owned(), value)]);
        template.parse::<Template>().unwrap().fill(&values, false)
    }

    #[test]
    fn a_value_replaces_its_placeholder_and_nothing_else() {
        assert_eq!(fill("--to={v}.txt", "a b; $(rm) 'x'".into()).unwrap(), "--to=a b; $(rm) 'x'.txt");
        assert_eq!(fill("{v}{v}", 7.into()).unwrap(), "77");
        assert_eq!(fill("{{v}}", 7.into()).unwrap(), "{v}");
        assert_eq!(fill("{{{v}}}", true.into()).unwrap(), "{true}");
        assert_eq!(fill("", true.into()).unwrap(), "");
    }

    #[test]
    fn a_value_cannot_become_an_option() {
        assert!(fill("{v}", "--exec=evil".into()).unwrap_err().contains("option"));
        assert_eq!(fill("x{v}", "-y".into()).unwrap(), "x-y");
        let values = BTreeMap::from([("v".to_owned(), "-f".into())]);
        assert_eq!("{v}".parse::<Template>().unwrap().fill(&values, true).unwrap(), "-f");
        assert!("--".parse::<Template>().unwrap().ends_options());
    }

    #[test]
    fn a_value_that_is_not_a_plain_scalar_is_refused() {
        for value in [Value::Null, serde_json::json!([1]), serde_json::json!({}), "a\0b".into()] {
            assert!(fill("{v}", value).is_err());
        }
        assert!(fill("{other}", 1.into()).unwrap_err().contains("missing"));
    }

    #[test]
    fn a_malformed_template_is_refused() {
        for template in ["{", "}", "{a", "{}", "a}b", "{a b}", "{a}}"] {
            assert!(template.parse::<Template>().is_err(), "{template}");
        }
    }
}
