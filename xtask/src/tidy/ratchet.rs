//! The list of files and functions that are longer than they should be. It may only shrink.

use std::collections::BTreeMap;

use super::Problem;

/// Where the list is kept: `lines path` for a file, `lines path fn name` for a function.
pub(crate) const PATH: &str = "xtask/file-sizes.txt";

/// A file or function with its length and limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) lines: usize,
    /// Longer than this must be on the list.
    pub(crate) limit: usize,
    /// Longer than this is refused even on the list.
    pub(crate) limit_max: Option<usize>,
}

pub(crate) fn check(measured: &[Measured], list: &str) -> Vec<Problem> {
    let (listed, mut problems) = parse(PATH, list);
    problems.extend(measured.iter().filter_map(|item| too_long(item, &listed)));
    for name in listed.keys() {
        // Methods of several types can share a name in one file; the entry stands for the longest.
        if !measured.iter().any(|item| item.name == *name && item.lines > item.limit) {
            problems.push(Problem::new(PATH, format!("`{name}` needs no entry any more"), "delete its line"));
        }
    }
    problems
}

/// The entries of a list that may only shrink, and what is wrong with its lines.
pub(crate) fn parse<'a>(path: &str, list: &'a str) -> (BTreeMap<&'a str, usize>, Vec<Problem>) {
    let mut listed = BTreeMap::new();
    let mut problems = Vec::new();
    for (index, line) in list.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match line.trim().split_once(' ').and_then(|(lines, name)| Some((lines.parse().ok()?, name.trim()))) {
            Some((lines, name)) => {
                listed.insert(name, lines);
            }
            None => problems.push(Problem::new(
                format!("{path}:{}", index + 1),
                format!("`{line}` cannot be read"),
                "write `lines path`, or `lines path fn name` for a function",
            )),
        }
    }
    (listed, problems)
}

fn too_long(item: &Measured, listed: &BTreeMap<&str, usize>) -> Option<Problem> {
    let Measured { name, lines, limit, limit_max } = item;
    if let Some(max) = limit_max.filter(|max| lines > max) {
        return Some(Problem::new(
            name,
            format!("{lines} lines, and {max} is the most there can be"),
            "split it",
        ));
    }
    match listed.get(name.as_str()) {
        _ if lines <= limit => None,
        Some(before) if lines <= before => None,
        Some(before) => Some(Problem::new(
            name,
            format!("grew from {before} to {lines} lines while on the list of long ones"),
            "split it, or take out as much as you put in",
        )),
        None => Some(Problem::new(
            name,
            format!("{lines} lines, more than {limit}"),
            format!(
                "split it; if it is better whole, add `{lines} {name}` to {PATH} and say why in the commit"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> Measured {
        Measured { name: "a.rs".into(), lines, limit: 400, limit_max: Some(800) }
    }

    #[test]
    fn a_long_file_must_be_listed() {
        assert_eq!(check(&[file(400)], ""), []);
        assert!(check(&[file(450)], "")[0].to_string().contains("add `450 a.rs`"));
        assert_eq!(check(&[file(450)], "# why\n450 a.rs\n"), []);
    }

    #[test]
    fn a_listed_file_may_shrink_but_not_grow() {
        assert_eq!(check(&[file(420)], "450 a.rs"), []);
        assert!(check(&[file(451)], "450 a.rs")[0].to_string().contains("grew from 450 to 451"));
    }

    #[test]
    fn no_entry_helps_beyond_the_hard_limit() {
        assert!(check(&[file(801)], "801 a.rs")[0].to_string().contains("split it"));
    }

    #[test]
    fn an_entry_that_is_not_needed_must_go() {
        assert_eq!(check(&[file(300)], "450 a.rs").len(), 1);
        assert_eq!(check(&[], "450 gone.rs").len(), 1);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_a_problem() {
        assert!(check(&[], "many a.rs")[0].place.ends_with(":1"));
    }
}
