//! Settings from `weaver.toml`. A key nobody knows is an error: a slip must not silently mean the default.

use std::fs;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::keys::{self, Key};
use crate::config::kind::Kind;
use crate::config::nearest::nearest;
use crate::exit::{Exit, Failure};

/// Reads a file: keys, their values as text, and the lines they are on.
pub(crate) fn read(path: &Path) -> Result<Vec<(&'static Key, String, usize)>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::io(path, &error))?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Vec<(&'static Key, String, usize)>, Failure> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        let message = format!("{}:{line}: {}", path.display(), error.message());
        Failure::new(Exit::Usage, message).next("correct that line")
    })?;
    let mut reader = Reader { path, text, found: Vec::new() };
    reader.table("", table.get_ref())?;
    Ok(reader.found)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    found: Vec<(&'static Key, String, usize)>,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), Failure> {
        for (name, value) in table {
            let line = line_of(self.text, name.span().start);
            let name = format!("{prefix}{}", name.get_ref());
            let inner = format!("{name}.");
            match value.get_ref() {
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
            let message = format!("{place}: there is no setting `{name}`{hint}");
            return Err(Failure::new(Exit::Usage, message)
                .next("correct or remove that line; docs/guides/cli.md lists every setting"));
        };
        match (&key.kind, value.get_ref()) {
            (Kind::Text | Kind::Choice(_) | Kind::Span | Kind::Secret, DeValue::String(text)) => {
                self.found.push((key, text.to_string(), line));
                Ok(())
            }
            _ => {
                let message = format!("{place}: `{name}` must be a text in quotes");
                Err(Failure::new(Exit::Usage, message).next(format!("write {name} = \"{}\"", key.default)))
            }
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
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
        let mut found =
            parse(Path::new("weaver.toml"), "# mine\nstore = \"./a\"\n\noutput = \"json\"\n").unwrap();
        found.sort_by_key(|(_, _, line)| *line);
        assert_eq!(found, [(keys::STORE, "./a".to_owned(), 2), (keys::OUTPUT, "json".to_owned(), 4)]);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_nearest() {
        assert_eq!(
            failure("\nstroe = \"./a\""),
            "weaver.toml:2: there is no setting `stroe`: did you mean `store`?"
        );
        assert!(failure("[stores]\nx = 1").starts_with("weaver.toml:1: there is no setting `stores`"));
        assert_eq!(failure("zzzzzzzz = 1"), "weaver.toml:1: there is no setting `zzzzzzzz`");
    }

    #[test]
    fn a_value_of_another_kind_and_a_file_that_is_no_toml_are_refused_with_their_lines() {
        assert_eq!(failure("store = 5"), "weaver.toml:1: `store` must be a text in quotes");
        assert!(failure("store = \"a\"\n = 2").starts_with("weaver.toml:2: "));
    }
}
