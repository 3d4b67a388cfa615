//! Public items that nothing mentions. The compiler finds those that are private; what is `pub` it takes for
//! granted. Items are told apart by name alone, so that one which shares its name with a living one is not
//! found: nothing that lives is reported.

use std::collections::{BTreeMap, HashMap};

use super::{Problem, markdown};

/// Items that only users of the library call: `path name: reason`.
pub(crate) const PATH: &str = "xtask/public-items.txt";

const KINDS: &[&str] = &["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

/// A public item: where it is defined, and its name.
type Item<'a> = (&'a str, usize, &'a str);

/// `files` are all Rust and Markdown files: tests, benchmarks, examples and the code in documents are users
/// too.
pub(crate) fn check(files: &[(String, String)], list: &str) -> Vec<Problem> {
    let mut mentions: HashMap<&str, usize> = HashMap::new();
    let mut items: Vec<Item<'_>> = Vec::new();
    for (path, text) in files {
        let lines = if path.ends_with(".md") { markdown::code(text) } else { code(text) };
        let is_ours = path.starts_with("crates/") && path.contains("/src/");
        for (number, line) in lines {
            for word in words(line) {
                *mentions.entry(word).or_default() += 1;
            }
            if let Some(name) = public_name(line).filter(|_| is_ours) {
                items.push((path, number, name));
            }
        }
    }
    let mut definitions: HashMap<&str, usize> = HashMap::new();
    for (_, _, name) in &items {
        *definitions.entry(name).or_default() += 1;
    }
    items.retain(|(_, _, name)| mentions.get(name) <= definitions.get(name));
    report(&items, list)
}

fn report(dead: &[Item<'_>], list: &str) -> Vec<Problem> {
    let (mut listed, mut problems) = parse(list);
    for (path, number, name) in dead {
        if listed.remove(&(*path, *name)).is_none() {
            problems.push(Problem::new(
                format!("{path}:{number}"),
                format!("nothing mentions the public item `{name}`"),
                format!("remove it, or test it; if users call it, add `{path} {name}: reason` to {PATH}"),
            ));
        }
    }
    for ((path, name), number) in listed {
        let what = format!("`{path} {name}` is mentioned now, or gone");
        problems.push(Problem::new(format!("{PATH}:{number}"), what, "delete its line"));
    }
    problems
}

/// The items of the list with their lines, and what is wrong with it.
fn parse(list: &str) -> (BTreeMap<(&str, &str), usize>, Vec<Problem>) {
    let mut listed = BTreeMap::new();
    let mut problems = Vec::new();
    for (index, line) in
        list.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        let parts = line.split_once(": ").filter(|(_, reason)| !reason.trim().is_empty());
        match parts.and_then(|(item, _)| item.split_once(' ')) {
            Some(item) => {
                listed.insert(item, index + 1);
            }
            None => problems.push(Problem::new(
                format!("{PATH}:{}", index + 1),
                format!("`{line}` cannot be read"),
                "write `path name: reason`",
            )),
        }
    }
    (listed, problems)
}

/// Lines in which a mention is a use. Comments are none, except for the code in documentation; nor are
/// imports, since what is imported is mentioned again (but for `as`), nor the headers of `impl`s, which a
/// dead type has too.
fn code(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut in_example, mut in_import) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
            match comment.trim_start().starts_with("```") {
                true => in_example = !in_example,
                false if in_example => found.push((index + 1, comment)),
                false => {}
            }
            continue;
        }
        in_example = false;
        let line = line.split("// ").next().unwrap_or_default().trim_end();
        if in_import || is_import(line) {
            in_import = !line.ends_with(';');
            let renamed =
                line.match_indices(" as ").filter_map(|(at, _)| line[..at].rsplit([':', '{', ' ']).next());
            found.extend(renamed.map(|name| (index + 1, name)));
        } else if !line.starts_with("impl ") && !line.starts_with("impl<") {
            found.push((index + 1, line));
        }
    }
    found
}

fn is_import(line: &str) -> bool {
    let line = line.strip_prefix("pub").unwrap_or(line);
    let line = match line.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((_, rest)) => rest,
        None => line,
    };
    line.trim_start().starts_with("use ")
}

fn public_name(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("pub ")?;
    loop {
        let (word, after) = rest.split_once(' ')?;
        // `const` is a kind before a name, and a qualifier before `fn`.
        let is_kind = KINDS.contains(&word) && !(word == "const" && after.starts_with("fn "));
        match word {
            _ if is_kind => return words(after).next(),
            "const" | "async" | "unsafe" => rest = after,
            _ => return None,
        }
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(library: &str, user: (&str, &str), list: &str) -> Vec<Problem> {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        check(&[file("crates/a/src/lib.rs", library), file(user.0, user.1)], list)
    }

    const NOT_USED: (&str, &str) = ("crates/a/tests/a.rs", "");

    #[test]
    fn every_kind_of_public_item_must_be_mentioned() {
        for item in [
            "pub fn one() {}",
            "    pub async fn one(&self) {",
            "pub const fn one() {}",
            "pub const one: u8 = 1;",
            "pub struct one;",
            "pub enum one {",
            "pub trait one {",
            "pub type one = u8;",
        ] {
            let found = problems(item, NOT_USED, "");
            assert!(found[0].to_string().contains("crates/a/src/lib.rs:1: nothing mentions"), "{item}");
        }
    }

    #[test]
    fn code_anywhere_is_a_mention() {
        for user in [
            ("crates/a/tests/a.rs", "let x = one();"),
            ("benches/src/a.rs", "a::one()"),
            ("crates/a/src/b.rs", "/// ```\n/// a::one();\n/// ```"),
            ("crates/a/src/b.rs", "#[serde(with = \"one\")]"),
            ("crates/a/src/b.rs", "use a::one as _;"),
            ("docs/a.md", "```rust\none();\n```"),
        ] {
            assert_eq!(problems("pub fn one() {}", user, ""), [], "{user:?}");
        }
    }

    #[test]
    fn comments_imports_and_the_headers_of_impls_are_no_mention() {
        for user in [
            ("crates/a/src/b.rs", "// one\n/// [`one`]\nx(); // one"),
            ("crates/a/src/b.rs", "pub use a::{\n    two,\n    one,\n};"),
            ("crates/a/src/b.rs", "impl fmt::Debug for one {}"),
            ("docs/a.md", "call `one`"),
        ] {
            assert_eq!(problems("pub struct one;", user, "").len(), 1, "{user:?}");
        }
    }

    #[test]
    fn what_the_compiler_looks_at_itself_is_left_to_it() {
        assert_eq!(problems("fn one() {}\npub(crate) fn two() {}", NOT_USED, ""), []);
    }

    #[test]
    fn an_item_for_users_is_listed_with_a_reason_until_it_is_mentioned() {
        let list = "# why\ncrates/a/src/lib.rs one: users call it\n";
        assert_eq!(problems("pub fn one() {}", NOT_USED, list), []);
        let found = problems("pub fn one() {}", ("crates/a/tests/a.rs", "one();"), list);
        assert!(found[0].to_string().starts_with("xtask/public-items.txt:2"));
        assert_eq!(problems("pub fn one() {}", NOT_USED, "crates/a/src/lib.rs one").len(), 2);
    }
}
