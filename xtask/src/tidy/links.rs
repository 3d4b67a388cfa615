//! Relative links in Markdown lead somewhere: to a file that exists, and to a heading it has.

use std::collections::{HashMap, HashSet};

use super::{Problem, markdown};

/// What a link can lead to.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// Files and the directories they are in.
    paths: HashSet<String>,
    /// Anchors of every Markdown file.
    anchors: HashMap<String, Vec<String>>,
}

impl Documents {
    pub(crate) fn new(markdown_files: &[(String, String)], files: &[String]) -> Self {
        let mut paths: HashSet<String> = HashSet::from([String::new()]);
        for file in files {
            paths.insert(file.clone());
            paths.extend(file.match_indices('/').map(|(at, _)| file[..at].to_owned()));
        }
        let anchors =
            markdown_files.iter().map(|(path, text)| (path.clone(), markdown::anchors(text))).collect();
        Self { paths, anchors }
    }

    /// What is wrong with `target` (`path`, `path#anchor` or `#anchor`) written in `file`.
    pub(crate) fn fault(&self, file: &str, target: &str) -> Option<String> {
        let (path, anchor) = match target.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor)),
            None => (target, None),
        };
        let path = if path.is_empty() { Some(file.to_owned()) } else { resolve(file, path) };
        let Some(path) = path.filter(|path| self.paths.contains(path)) else {
            return Some(format!("`{target}` does not exist"));
        };
        let (anchor, offered) = (anchor?, self.anchors.get(&path)?);
        (!offered.iter().any(|known| known == anchor)).then(|| format!("{path} has no heading `#{anchor}`"))
    }
}

pub(crate) fn check(markdown_files: &[(String, String)], files: &[String]) -> Vec<Problem> {
    let documents = Documents::new(markdown_files, files);
    let mut problems = Vec::new();
    for (file, text) in markdown_files {
        for (line, target) in markdown::links(text) {
            if is_relative(&target)
                && let Some(fault) = documents.fault(file, &target)
            {
                problems.push(Problem::new(format!("{file}:{line}"), fault, "correct or remove the link"));
            }
        }
    }
    problems
}

/// Not `https:`, `mailto:` or another scheme, and not `//host`.
fn is_relative(target: &str) -> bool {
    let scheme = target.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    !target.is_empty() && !scheme && !target.starts_with("//")
}

/// The path from the root, or nothing when it leaves the repository. A leading `/` means the root.
fn resolve(file: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = if path.starts_with('/') { Vec::new() } else { file.split('/').collect() };
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(link: &str) -> Vec<Problem> {
        let page = ("docs/a.md".to_owned(), format!("# Here\n[x]({link})"));
        let other = ("README.md".to_owned(), "## There\n".to_owned());
        let files = ["docs/a.md", "README.md", "src/lib.rs"].map(str::to_owned);
        check(&[page, other], &files)
    }

    #[test]
    fn links_to_files_directories_and_headings_pass() {
        for link in ["a.md", "../README.md", "/README.md", "../src", "../src/", "../README.md#there", "#here"]
        {
            assert_eq!(problems(link), [], "{link}");
        }
    }

    #[test]
    fn an_anchor_into_something_else_than_markdown_is_not_looked_at() {
        assert_eq!(problems("../src/lib.rs#L3"), []);
    }

    #[test]
    fn links_with_a_scheme_are_left_alone() {
        for link in ["https://example.org/x", "mailto:a@example.org", "crate::Task", "//example.org"] {
            assert_eq!(problems(link), [], "{link}");
        }
    }

    #[test]
    fn missing_files_missing_headings_and_ways_out_of_the_repository_fail() {
        for link in ["b.md", "README.md", "../../README.md", "../README.md#where", "#there"] {
            assert_eq!(problems(link).len(), 1, "{link}");
        }
    }
}
