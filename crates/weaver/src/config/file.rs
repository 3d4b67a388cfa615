//! Settings from `weaver.toml`. An unknown key is an error: a typo must not silently mean the default.

use std::fs;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use weaver_handlers::BuiltIn;

use crate::config::confine::{self, CONFINE, Confine};
use crate::config::handlers::{self, HANDLERS};
use crate::config::keys::{self, Key};
use crate::config::kind::Kind;
use crate::config::nearest::nearest;
use crate::config::profiles::{self, PROFILES, Profiles};
use crate::config::templates::{self, TEMPLATES, Templates};
use crate::exit::{Exit, Failure};

#[derive(Debug)]
pub(crate) struct Content {
    /// Key, value as text, line.
    pub(crate) values: Vec<(&'static Key, String, usize)>,
    /// The sections, each with its first line.
    pub(crate) handlers: Option<(BuiltIn, usize)>,
    pub(crate) profiles: Option<(Profiles, usize)>,
    pub(crate) confine: Option<(Confine, usize)>,
    pub(crate) templates: Option<(Templates, usize)>,
}

pub(crate) fn read(path: &Path) -> Result<Content, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::io(path, &error))?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Content, Failure> {
    let table = DeTable::parse(text).map_err(|error| wrong(path, text, &error))?;
    let mut reader = Reader { path, text, found: Vec::new(), templates: None };
    reader.table("", table.get_ref())?;
    let line = |section: &str| {
        let key = table.get_ref().keys().find(|key| key.get_ref() == section);
        key.map(|key| line_of(text, key.span().start))
    };
    let handlers =
        line(HANDLERS).map(|line| handlers::read(path, text).map(|read| (read, line))).transpose()?;
    let profiles =
        line(PROFILES).map(|line| profiles::read(path, text).map(|read| (read, line))).transpose()?;
    let confine = line(CONFINE).map(|line| confine::read(path, text).map(|read| (read, line))).transpose()?;
    let templates = reader.templates.map(|line| templates::read(path, text).map(|read| (read, line)));
    Ok(Content { values: reader.found, handlers, profiles, confine, templates: templates.transpose()? })
}

/// A TOML error with its line.
pub(super) fn wrong(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    let message = format!("{}:{line}: {}", path.display(), error.message());
    Failure::new(Exit::Usage, message).next("correct that line")
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    found: Vec<(&'static Key, String, usize)>,
    /// The line of `[merge.templates]`.
    templates: Option<usize>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), Failure> {
        for (name, value) in table {
            let line = line_of(self.text, name.span().start);
            let name = format!("{prefix}{}", name.get_ref());
            let inner = format!("{name}.");
            match value.get_ref() {
                // Read as a whole: see `handlers.rs`, `profiles.rs`, `confine.rs` and `templates.rs`.
                DeValue::Table(_) if [HANDLERS, PROFILES, CONFINE].contains(&name.as_str()) => {}
                DeValue::Table(_) if name == TEMPLATES => self.templates = Some(line),
                DeValue::Table(table) if keys::ALL.iter().any(|key| key.name.starts_with(&inner)) => {
                    self.table(&inner, table)?;
                }
                _ => self.value(&name, value, line)?,
            }
        }
        Ok(())
    }

    fn value(&mut self, name: &str, value: &Spanned<DeValue<'_>>, line: usize) -> Result<(), Failure> {
        let place = format!("{}:{line}", self.path.display());
        let Some(key) = keys::ALL.iter().copied().find(|key| key.name == name) else {
            let hint = match nearest(name, keys::ALL.iter().map(|key| key.name)) {
                Some(meant) => format!(": did you mean `{meant}`?"),
                None => String::new(),
            };
            let message = format!("{place}: unknown setting `{name}`{hint}");
            return Err(Failure::new(Exit::Usage, message)
                .next("correct or remove that line; docs/guides/cli.md lists every setting"));
        };
        let Some(text) = text_of(&key.kind, value.get_ref()) else {
            let (form, example) = match key.kind {
                Kind::Count(..) => ("a number", key.default.to_owned()),
                Kind::Switch => ("true or false", key.default.to_owned()),
                Kind::Names => ("a list of strings", format!("[\"{}\"]", key.default)),
                _ => ("a string in quotes", format!("\"{}\"", key.default)),
            };
            let message = format!("{place}: `{name}` must be {form}");
            return Err(Failure::new(Exit::Usage, message).next(format!("write `{name} = {example}`")));
        };
        self.found.push((key, text, line));
        Ok(())
    }
}

/// The value as variables and flags would give it.
fn text_of(kind: &Kind, value: &DeValue<'_>) -> Option<String> {
    match (kind, value) {
        (Kind::Count(..), DeValue::Integer(number)) => Some(number.as_str().to_owned()),
        (Kind::Switch, DeValue::Boolean(is_on)) => Some(is_on.to_string()),
        (Kind::Names, DeValue::Array(items)) => {
            let names = items.iter().map(|item| match item.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            Some(names.collect::<Option<Vec<_>>>()?.join(","))
        }
        (
            Kind::Text | Kind::Optional | Kind::Choice(_) | Kind::Span | Kind::Secret | Kind::Names,
            DeValue::String(text),
        ) => Some(text.to_string()),
        _ => None,
    }
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        parse(Path::new("weaver.toml"), text).unwrap_err().message
    }

    #[test]
    fn values_are_read_with_their_lines() {
        let text = "# mine\nstore = \"./a\"\n\noutput = \"json\"\n[worker]\nconcurrency = 4\nqueues = [\"a\", \"b\"]\n";
        let mut found = parse(Path::new("weaver.toml"), text).unwrap().values;
        found.sort_by_key(|(_, _, line)| *line);
        assert_eq!(
            found,
            [
                (keys::STORE, "./a".to_owned(), 2),
                (keys::OUTPUT, "json".to_owned(), 4),
                (keys::WORKER_CONCURRENCY, "4".to_owned(), 6),
                (keys::WORKER_QUEUES, "a,b".to_owned(), 7)
            ]
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_nearest() {
        assert_eq!(
            failure("\nstroe = \"./a\""),
            "weaver.toml:2: unknown setting `stroe`: did you mean `store`?"
        );
        assert!(failure("[stores]\nx = 1").starts_with("weaver.toml:1: unknown setting `stores`"));
        assert_eq!(failure("zzzzzzzz = 1"), "weaver.toml:1: unknown setting `zzzzzzzz`");
    }

    #[test]
    fn a_value_of_another_kind_and_invalid_toml_are_refused_with_their_lines() {
        assert_eq!(failure("store = 5"), "weaver.toml:1: `store` must be a string in quotes");
        assert_eq!(
            failure("[worker]\nconcurrency = \"x\""),
            "weaver.toml:2: `worker.concurrency` must be a number"
        );
        assert_eq!(
            failure("worker.queues = [1]"),
            "weaver.toml:1: `worker.queues` must be a list of strings"
        );
        assert!(failure("store = \"a\"\n = 2").starts_with("weaver.toml:2: "));
    }
}
