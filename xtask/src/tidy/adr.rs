//! The form of the decisions in `docs/adr/`: what the README there asks for.

use std::collections::BTreeMap;

use super::{Problem, markdown};

const DIRECTORY: &str = "docs/adr/";
const INDEX: &str = "docs/adr/README.md";
const SECTIONS: [&str; 4] = ["Context", "Decision", "Alternatives rejected", "Consequences"];
const STATUSES: [&str; 3] = ["accepted", "proposed", "replaced by"];

/// A decision as its page states it.
struct Page<'a> {
    path: &'a str,
    title: &'a str,
    /// The paragraph that begins with `Status: `, without that.
    status: &'a str,
    /// Numbers of the decisions that the status links to after `by`: they changed this one.
    changed_by: Vec<&'a str>,
    /// The others it links to: those that this one changed.
    changes: Vec<&'a str>,
}

pub(crate) fn check(markdown_files: &[(String, String)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut pages: BTreeMap<&str, Page<'_>> = BTreeMap::new();
    let in_directory = markdown_files.iter().filter(|(path, _)| path.starts_with(DIRECTORY) && path != INDEX);
    for (path, text) in in_directory {
        let Some(number) = number_of(path) else {
            let what = "the file's name is not a number and a title in small letters";
            problems.push(Problem::new(path, what, "name it `NNNN-what-was-decided.md`"));
            continue;
        };
        let page = read(path, number, text, &mut problems);
        if let Some(other) = pages.insert(number, page) {
            let what = format!("{number} is also the number of {}", other.path);
            problems.push(Problem::new(path, what, "take the next free number"));
        }
    }
    relations(&pages, &mut problems);
    let index = markdown_files.iter().find(|(path, _)| path == INDEX).map_or("", |(_, text)| text);
    listed(&pages, index, &mut problems);
    problems
}

fn number_of(path: &str) -> Option<&str> {
    let (number, title) = path.strip_prefix(DIRECTORY)?.strip_suffix(".md")?.split_once('-')?;
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (is_number && title.split('-').all(is_word)).then_some(number)
}

fn read<'a>(path: &'a str, number: &str, text: &'a str, problems: &mut Vec<Problem>) -> Page<'a> {
    let mut problem = |what: String, next: &str| problems.push(Problem::new(path, what, next));
    let first = text.lines().next().unwrap_or_default();
    let title = first.strip_prefix(&format!("# {number}: ")).unwrap_or_default();
    if title.is_empty() || title.ends_with('.') {
        problem(format!("the first line is `{first}`"), &format!("write `# {number}: What was decided`"));
    }
    let paragraph = text[first.len()..].trim_start().split("\n\n").next().unwrap_or_default();
    let status = paragraph.strip_prefix("Status: ").unwrap_or_default();
    if !STATUSES.iter().any(|known| status.starts_with(known)) {
        problem(
            "the title is not followed by a status".into(),
            "write `Status: accepted`, `Status: proposed` or `Status: replaced by [NNNN](NNNN-….md)`",
        );
    }
    let headings: Vec<&str> =
        markdown::prose(text).filter_map(|(_, line)| line.strip_prefix("## ")).collect();
    let found: Vec<&str> = headings.into_iter().filter(|heading| SECTIONS.contains(heading)).collect();
    if found != SECTIONS {
        problem(
            format!("of the four sections it has, in this order: {}", found.join(", ")),
            "write `## Context`, `## Decision`, `## Alternatives rejected`, `## Consequences`, each once",
        );
    }
    let (changed_by, changes): (Vec<_>, Vec<_>) = links(status).partition(|(_, is_by)| *is_by);
    let numbers = |links: Vec<(&'a str, bool)>| links.into_iter().map(|(number, _)| number).collect();
    Page { path, title, status, changed_by: numbers(changed_by), changes: numbers(changes) }
}

/// Numbers of the decisions that a text links to, and whether the link follows the word `by`.
fn links(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.match_indices("](").filter_map(|(at, _)| {
        let number =
            text[at + 2..].split_once('-').map(|(number, _)| number).filter(|number| number.len() == 4)?;
        let before = text[..at].rsplit_once('[').map_or("", |(before, _)| before);
        Some((number, before.trim_end().ends_with("by")))
    })
}

/// What one decision says of another, the other says of it: a reader who finds the old page must learn of the
/// new one.
fn relations(pages: &BTreeMap<&str, Page<'_>>, problems: &mut Vec<Problem>) {
    for (number, page) in pages {
        let mut answer = |other: &&str, has: fn(&Page<'_>, &str) -> bool, word: &str| {
            if let Some(other) = pages.get(other).filter(|other| !has(other, number)) {
                let what = format!("the status of {number} names this one, which does not answer");
                let next = format!("add `{word} [{number}](…)` to the status");
                problems.push(Problem::new(other.path, what, next));
            }
        };
        for other in &page.changed_by {
            answer(other, |other, number| other.changes.contains(&number), "amends");
        }
        for other in &page.changes {
            answer(other, |other, number| other.changed_by.contains(&number), "amended by");
        }
    }
}

/// Every decision has its row in the index, with its title, its status and the later decisions that changed
/// it.
fn listed(pages: &BTreeMap<&str, Page<'_>>, index: &str, problems: &mut Vec<Problem>) {
    let mut problem = |what: String, next: String| problems.push(Problem::new(INDEX, what, next));
    let rows: Vec<&str> = index.lines().filter(|line| line.starts_with("| [")).collect();
    for (number, page) in pages {
        let link = format!("| [{number}]({}) |", page.path.trim_start_matches(DIRECTORY));
        let Some(row) = rows.iter().find(|row| row.starts_with(&link)) else {
            problem(format!("{number} has no row"), format!("add `{link} {} | accepted |`", page.title));
            continue;
        };
        let (title, status) = row[link.len()..].trim_end_matches('|').rsplit_once('|').unwrap_or_default();
        if title.trim() != page.title {
            problem(format!("the row of {number} has another title"), format!("write `{}`", page.title));
        }
        let is_same =
            STATUSES.iter().any(|known| page.status.starts_with(known) && status.trim().starts_with(known));
        if !is_same {
            problem(format!("the row of {number} has another status"), format!("write `{}`", page.status));
        }
        for later in page.changed_by.iter().filter(|later| !status.contains(**later)) {
            let next = format!("write `accepted, amended by {later}`, or `replaced by {later}`");
            problem(format!("the row of {number} does not name {later}, which changed it"), next);
        }
    }
    for row in rows {
        let is_known = links(row).next().is_some_and(|(number, _)| pages.contains_key(number));
        if !is_known {
            problem(format!("`{row}` leads to no decision"), "correct or remove the row".into());
        }
    }
}

#[cfg(test)]
#[path = "adr_tests.rs"]
mod tests;
