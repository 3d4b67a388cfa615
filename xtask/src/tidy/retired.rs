//! Words that the project has retired: readers cannot search for a private word where the field has a name.
//! The list says what to write instead.

use std::collections::BTreeMap;

use super::Problem;

/// `word -> use instead` for a word of prose and of compound names; `= Name -> use instead` for exactly that
/// identifier; `! path word: reason` for a file that may use it.
pub(crate) const PATH: &str = "xtask/retired-words.txt";

/// Where words are read. The changelog names what was renamed.
const ENDINGS: &[&str] = &[".rs", ".sql", ".md", ".js", ".css", ".py", ".toml", ".yml"];
const EXEMPT: &[&str] = &["CHANGELOG.md"];

/// Identifiers are looked for in code alone: in prose they may be ordinary words.
const CODE: &[&str] = &[".rs", ".sql"];

pub(crate) fn check(files: &[(String, String)], list: &str) -> Vec<Problem> {
    let (list, mut problems) = List::parse(list);
    let mut used: Vec<(&str, &str)> = Vec::new();
    for (path, text) in files {
        if EXEMPT.contains(&path.as_str()) || !ENDINGS.iter().any(|ending| path.ends_with(ending)) {
            continue;
        }
        let is_code = CODE.iter().any(|ending| path.ends_with(ending));
        for (index, line) in text.lines().enumerate() {
            let words = list.words.iter().filter(|(word, _)| has_word(line, word));
            let names = list.names.iter().filter(|(name, _)| is_code && has_identifier(line, name));
            for (word, instead) in words.chain(names) {
                if list.allowed.contains_key(&(path.as_str(), *word)) {
                    used.push((path, word));
                    continue;
                }
                problems.push(Problem::new(
                    format!("{path}:{}", index + 1),
                    format!("`{word}` is retired"),
                    format!("{instead}; if it is right here, add `! {path} {word}: reason` to {PATH}"),
                ));
            }
        }
    }
    for ((path, word), number) in list.allowed {
        if !used.contains(&(path, word)) {
            let what = format!("`{path}` does not use `{word}` any more");
            problems.push(Problem::new(format!("{PATH}:{number}"), what, "delete its line"));
        }
    }
    problems
}

#[derive(Default)]
struct List<'a> {
    words: Vec<(&'a str, &'a str)>,
    names: Vec<(&'a str, &'a str)>,
    /// Path and word, with the line of the list.
    allowed: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> List<'a> {
    fn parse(text: &'a str) -> (Self, Vec<Problem>) {
        let (mut list, mut problems) = (Self::default(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if list.add(line, index + 1).is_none() {
                problems.push(Problem::new(
                    format!("{PATH}:{}", index + 1),
                    format!("`{line}` cannot be read"),
                    "write `word -> instead`, `= Name -> instead` or `! path word: reason`",
                ));
            }
        }
        (list, problems)
    }

    fn add(&mut self, line: &'a str, number: usize) -> Option<()> {
        if let Some(allowed) = line.strip_prefix("! ") {
            let (place, reason) = allowed.split_once(": ")?;
            let (path, word) = place.split_once(' ')?;
            self.allowed.insert((path, word), number);
            return (!reason.trim().is_empty()).then_some(());
        }
        let (word, instead) = line.split_once(" -> ")?;
        match word.strip_prefix("= ") {
            Some(name) => self.names.push((name, instead)),
            None => self.words.push((word, instead)),
        }
        Some(())
    }
}

/// Whether a word stands alone or as a part of a compound name, such as `wakes_it` or `WakesIt`.
fn has_word(line: &str, word: &str) -> bool {
    // Most lines have no such letters at all; only then is anything compared letter by letter.
    let lower = line.to_ascii_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let (found, after) = rest.split_at(word.len());
        let begins_hump = found.starts_with(|c: char| c.is_ascii_uppercase());
        let begins = !before.ends_with(char::is_alphanumeric)
            || (begins_hump && before.ends_with(|c: char| c.is_ascii_lowercase()));
        let ends = !after.starts_with(char::is_alphanumeric)
            || (begins_hump && after.starts_with(|c: char| c.is_ascii_uppercase()));
        begins && ends
    })
}

fn has_identifier(line: &str, name: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name)
        .any(|(at, _)| !line[..at].ends_with(continues) && !line[at + name.len()..].starts_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# why\nthingy -> say part\n= Gizmo -> Device\n";

    fn problems(path: &str, text: &str, list: &str) -> Vec<Problem> {
        check(&[(path.to_owned(), text.to_owned())], list)
    }

    #[test]
    fn a_planted_word_fails_in_prose_messages_comments_and_compound_names() {
        for text in
            ["a Thingy.", "// no thingy", "\"THINGY failed\"", "fn wakes_thingy()", "ThingyList", "aThingyB"]
        {
            let found = problems("a.rs", text, LIST);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].to_string().contains("say part"), "{text}");
        }
        assert_eq!(problems("a.md", "one thingy", LIST).len(), 1);
        assert_eq!(problems("a.rs", "somethingy thingys Anythingy", LIST), []);
    }

    #[test]
    fn a_retired_identifier_fails_in_code_as_a_whole_and_nowhere_else() {
        assert_eq!(problems("a.rs", "struct Gizmo;", LIST).len(), 1);
        assert_eq!(problems("a.sql", "select Gizmo", LIST).len(), 1);
        assert_eq!(problems("a.rs", "gizmo GizmoSet MyGizmo", LIST), []);
        assert_eq!(problems("a.md", "Gizmo", LIST), []);
    }

    #[test]
    fn a_file_on_the_list_may_use_its_word_and_no_other() {
        let list = format!("{LIST}! a.md thingy: a quotation\n");
        assert_eq!(problems("a.md", "thingy", &list), []);
        assert_eq!(problems("b.md", "thingy", &list).len(), 2);
    }

    #[test]
    fn an_exception_that_is_not_needed_or_has_no_reason_is_a_problem() {
        let list = format!("{LIST}! a.md thingy: a quotation\n");
        assert!(problems("a.md", "part", &list)[0].to_string().contains("any more"));
        assert!(problems("a.md", "thingy", &format!("{LIST}! a.md thingy\n"))[0].place.ends_with(":4"));
    }

    #[test]
    fn the_changelog_may_name_what_was_renamed() {
        assert_eq!(problems("CHANGELOG.md", "thingy", LIST), []);
    }
}
