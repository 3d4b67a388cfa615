//! How wide lines are. rustfmt leaves comments and strings alone; Markdown and SQL have no formatter.

use std::collections::BTreeMap;

use super::{Problem, markdown, ratchet};

/// Where lines may be too wide, and how many: `lines path`, or `lines directory/` for all files in it. A
/// count may only shrink.
pub(crate) const PATH: &str = "xtask/wide-lines.txt";

/// rustfmt's `max_width`: what it would break, if it broke comments and strings.
const RUST_COLUMNS: usize = 110;
/// Prose and SQL have no indentation to speak of, and may be wider.
const TEXT_COLUMNS: usize = 140;

/// Holds files to their width, except for those that are listed with as many wide lines as they had.
pub(crate) fn check(files: &[(String, String)], list: &str) -> Vec<Problem> {
    let (listed, mut problems) = ratchet::parse(PATH, list);
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, text) in files {
        let (columns, wide) = wide_lines(path, text);
        let covers = |entry: &&str| path == entry || (entry.ends_with('/') && path.starts_with(*entry));
        if let Some(entry) = listed.keys().copied().find(covers) {
            *counted.entry(entry).or_default() += wide.len();
            continue;
        }
        problems.extend(wide.into_iter().map(|(number, width)| {
            let what = format!("{width} columns, more than {columns}");
            Problem::new(format!("{path}:{number}"), what, "wrap the line")
        }));
    }
    for (entry, before) in listed {
        match counted.get(entry).copied().unwrap_or(0) {
            0 => problems.push(Problem::new(
                PATH,
                format!("`{entry}` needs no entry any more"),
                "delete its line",
            )),
            now if now > before => problems.push(Problem::new(
                entry,
                format!("grew from {before} to {now} lines that are too wide"),
                "wrap those you wrote (Rust at 110 columns, other text at 140), or as many others",
            )),
            _ => {}
        }
    }
    problems
}

/// The width a file is held to, and its lines that are wider: number and width.
fn wide_lines(path: &str, text: &str) -> (usize, Vec<(usize, usize)>) {
    let wider = |columns: usize, lines: &mut dyn Iterator<Item = (usize, &str)>| {
        let measured = lines.map(|(number, line)| (number, width(line)));
        (columns, measured.filter(|(_, width)| *width > columns).collect())
    };
    if path.ends_with(".md") {
        // A table's row and a heading are one line by the rules of Markdown.
        let breakable = |line: &str| !line.trim_start().starts_with(['|', '#']);
        wider(TEXT_COLUMNS, &mut markdown::prose(text).filter(|(_, line)| breakable(line)))
    } else {
        let columns = if path.ends_with(".rs") { RUST_COLUMNS } else { TEXT_COLUMNS };
        wider(columns, &mut text.lines().enumerate().map(|(index, line)| (index + 1, line)))
    }
}

/// Columns of a line without the targets of its links, which have no place for a break.
fn width(line: &str) -> usize {
    // Most lines are short: no more is asked of them.
    if line.len() <= RUST_COLUMNS {
        return line.len();
    }
    let mut columns = line.chars().count();
    for (at, _) in line.match_indices("](") {
        columns -= line[at + 2..].find(')').map_or(0, |end| line[at + 2..at + 2 + end].chars().count());
    }
    let addresses = line.split_whitespace().filter(|word| word.contains("://") && !word.contains("]("));
    columns - addresses.map(|word| word.chars().count()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str, list: &str) -> Vec<Problem> {
        check(&[(path.to_owned(), text.to_owned())], list)
    }

    #[test]
    fn rust_is_as_wide_as_rustfmt_makes_it_and_the_setting_is_the_same() {
        let line = |columns: usize| format!("// {}\n", "ä".repeat(columns - 3));
        assert_eq!(problems("a.rs", &line(110), ""), []);
        assert!(problems("a.rs", &line(111), "")[0].to_string().starts_with("a.rs:1: 111 columns"));
        let settings = include_str!("../../../rustfmt.toml");
        assert!(settings.contains(&format!("max_width = {RUST_COLUMNS}")));
    }

    #[test]
    fn prose_and_sql_may_have_140_columns_and_not_141() {
        for path in ["a.md", "a.sql"] {
            assert_eq!(problems(path, &"x".repeat(140), ""), []);
            assert_eq!(problems(path, &"x".repeat(141), "").len(), 1);
        }
    }

    #[test]
    fn tables_headings_code_and_the_targets_of_links_cannot_be_wrapped() {
        let long = "x".repeat(200);
        for text in
            [format!("| {long} |"), format!("# {long}"), format!("```\n{long}\n```"), format!("[a]({long})")]
        {
            assert_eq!(problems("a.md", &text, ""), [], "{text}");
        }
        assert_eq!(problems("a.rs", &format!("// https://{long}"), ""), []);
    }

    #[test]
    fn a_listed_file_may_have_fewer_wide_lines_and_not_more() {
        let wide = format!("{}\n", "x".repeat(141));
        assert_eq!(problems("a.md", &wide, "2 a.md"), []);
        assert!(problems("a.md", &wide.repeat(3), "2 a.md")[0].to_string().contains("grew from 2 to 3"));
    }

    #[test]
    fn an_entry_of_a_directory_counts_all_files_in_it() {
        let wide = "x".repeat(141);
        assert_eq!(problems("docs/a.md", &wide, "1 docs/"), []);
        assert_eq!(problems("docs/a.md", &wide, "1 doc").len(), 2);
        let pair = [("docs/a.md".to_owned(), wide.clone()), ("docs/b/c.md".to_owned(), wide)];
        assert!(check(&pair, "1 docs/")[0].to_string().contains("grew from 1 to 2"));
    }

    #[test]
    fn an_entry_that_is_not_needed_must_go() {
        assert!(problems("a.md", "short", "1 a.md")[0].to_string().contains("needs no entry"));
        assert!(problems("a.md", "short", "1 gone.md")[0].to_string().contains("needs no entry"));
    }
}
