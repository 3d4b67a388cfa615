//! The tables in `docs/seeds/` say, requirement by requirement, what proves it; so do those elsewhere whose
//! last column is called "shown by". A proof that does not exist is an error: otherwise the tables would say
//! what we meant to do.

use std::collections::HashSet;

use serde_json::Value;

use super::links::Documents;
use super::{Problem, markdown};

/// Where every table is about proofs.
pub(crate) const SEEDS: &str = "docs/seeds/";

/// What a table may refer to.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// `binary::module::test`, only of tests that run.
    pub(crate) tests: Vec<String>,
    pub(crate) examples: HashSet<String>,
    pub(crate) documents: Documents,
}

pub(crate) fn check(tables: &[(String, String)], known: &Known) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tables {
        let is_seed = path.starts_with(SEEDS);
        let cells =
            if is_seed { markdown::last_cells(text) } else { markdown::last_cells_under(text, "shown by") };
        for (line, cell) in cells {
            let place = format!("{path}:{line}");
            let proofs = markdown::code_spans(&cell);
            if proofs.is_empty() {
                problems.push(Problem::new(
                    &place,
                    "the row's last column names no proof in backticks",
                    "name a `test`, an `example:NAME` or a `doc:PATH#ANCHOR`",
                ));
            }
            let faults = proofs.into_iter().filter_map(|proof| known.fault(proof));
            problems.extend(faults.map(|(what, next)| Problem::new(&place, what, next)));
        }
    }
    problems
}

impl Known {
    /// What is wrong with a proof, and what to do about it.
    fn fault(&self, proof: &str) -> Option<(String, &'static str)> {
        if let Some(name) = proof.strip_prefix("example:") {
            let next = "write the example, or correct its name";
            return (!self.examples.contains(name)).then(|| (format!("there is no example `{name}`"), next));
        }
        if let Some(target) = proof.strip_prefix("doc:") {
            // Written from the root, wherever the table is.
            let fault = self.documents.fault("", target);
            return fault.map(|fault| (fault, "correct the path; it is taken from the repository's root"));
        }
        let exists = self.tests.iter().any(|test| is_end_of(test, proof));
        let next = "write the test, or correct its name; `cargo nextest list` shows them";
        (!exists).then(|| (format!("no test that runs is called `{proof}`"), next))
    }
}

/// Whether `name` is `path` or the end of it, from the beginning of a word: `stays_final` is not the end of
/// `terminal_stays_final`.
fn is_end_of(path: &str, name: &str) -> bool {
    let before = path.strip_suffix(name);
    before.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Test names from the JSON of `cargo nextest list`. Ignored tests are left out: they prove nothing.
pub(crate) fn parse_tests(json: &str) -> Result<Vec<String>, String> {
    let root: Value =
        serde_json::from_str(json).map_err(|e| format!("`cargo nextest list` wrote no JSON: {e}"))?;
    let suites =
        root["rust-suites"].as_object().ok_or("`cargo nextest list` wrote no `rust-suites`; update it")?;
    let mut tests = Vec::new();
    for (binary, suite) in suites {
        for (name, case) in suite["testcases"].as_object().into_iter().flatten() {
            if case["ignored"] != true {
                tests.push(format!("{binary}::{name}"));
            }
        }
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(last_cell: &str) -> Vec<Problem> {
        let known = Known {
            tests: vec!["weaver-core::conformance::memory::terminal_is_final".into()],
            examples: HashSet::from(["hello".into()]),
            documents: Documents::new(&[("docs/a.md".into(), "# Why\n".into())], &["docs/a.md".into()]),
        };
        let table = format!("| what | proof |\n|---|---|\n| a | {last_cell} |\n");
        check(&[("docs/seeds/x.md".into(), table)], &known)
    }

    #[test]
    fn tests_are_found_by_name_and_by_the_end_of_their_path() {
        for proof in
            ["terminal_is_final", "memory::terminal_is_final", "conformance::memory::terminal_is_final"]
        {
            assert_eq!(problems(&format!("`{proof}`")), [], "{proof}");
        }
    }

    #[test]
    fn examples_and_headings_are_proofs_too() {
        assert_eq!(problems("`example:hello`, `doc:docs/a.md#why`, `doc:docs/a.md`"), []);
    }

    #[test]
    fn a_proof_that_does_not_exist_fails() {
        let wrong =
            ["is_final", "embedded::terminal_is_final", "example:bye", "doc:docs/b.md", "doc:docs/a.md#how"];
        for proof in wrong {
            assert_eq!(problems(&format!("`{proof}`")).len(), 1, "{proof}");
        }
    }

    #[test]
    fn a_row_without_a_proof_fails() {
        assert!(problems("later")[0].to_string().contains("docs/seeds/x.md:3"));
    }

    #[test]
    fn elsewhere_only_tables_that_say_so_are_about_proofs() {
        let table = |title: &str| format!("| what | {title} |\n|---|---|\n| a | none |\n");
        let check = |title| check(&[("docs/operating/x.md".into(), table(title))], &Known::default());
        assert_eq!(check("shown by").len(), 1);
        assert_eq!(check("default"), []);
    }

    #[test]
    fn ignored_tests_are_no_proof() {
        let json = r#"{"rust-suites": {"core": {"testcases": {
            "a::runs": {"ignored": false}, "a::skipped": {"ignored": true}}}}}"#;
        assert_eq!(parse_tests(json).unwrap(), ["core::a::runs"]);
        assert!(parse_tests("{}").is_err());
    }
}
