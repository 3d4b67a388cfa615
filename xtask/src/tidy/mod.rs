//! `cargo xtask tidy`: rules of this repository that no compiler knows. Each check is a pure function from
//! texts to problems, so that a small input proves it can fail.

mod adr;
mod dead;
mod directions;
mod functions;
mod licences;
mod links;
mod manifests;
mod markdown;
mod ratchet;
mod retired;
mod seeds;
mod sizes;
mod spdx;
mod sql_functions;
mod widths;
mod words;

use std::fmt;

use crate::cargo::Cargo;
use crate::project::Project;
use crate::step::{self, Step};

/// Something that breaks a rule: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    place: String,
    what: String,
    next: String,
}

impl Problem {
    fn new(place: impl Into<String>, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into(), next: next.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.what, self.next)
    }
}

/// All checks are run even when one fails: they are quick, and people want to see everything at once.
pub(crate) fn run(project: &Project, build: bool) -> Result<(), String> {
    let mut steps = steps_without_build(project);
    if build {
        steps.push(seeds_step(project));
    }
    step::run_all(&steps, true)
}

/// The checks that read only files and `cargo metadata`.
pub(crate) fn steps_without_build(project: &Project) -> Vec<Step<'_>> {
    let check = |name: &str, work: fn(&Project) -> Result<Vec<Problem>, String>| {
        Step::quiet(format!("tidy {name}"), "cargo xtask tidy --no-build", move || report(&work(project)?))
    };
    vec![
        check("licences", |project| Ok(licences::check(project.packages()?))),
        check("directions", |project| Ok(directions::check(project.packages()?))),
        check("manifests", |project| Ok(manifests::check(project.packages()?))),
        check("sizes", |project| {
            Ok(ratchet::check(
                &sizes::measure(&texts(project, &[".rs", ".sql"])?),
                &list(project, ratchet::PATH)?,
            ))
        }),
        check("widths", |project| {
            Ok(widths::check(&texts(project, &[".rs", ".sql", ".md"])?, &list(project, widths::PATH)?))
        }),
        check("public items", |project| {
            Ok(dead::check(&texts(project, &[".rs", ".md"])?, &list(project, dead::PATH)?))
        }),
        check("decisions", |project| Ok(adr::check(&project.texts(".md")?))),
        check("links", |project| Ok(links::check(&project.texts(".md")?, project.files()?))),
        check("words", |project| {
            let files = project.texts("")?;
            let mut problems = words::check(&files);
            problems.extend(retired::check(&files, &list(project, retired::PATH)?));
            Ok(problems)
        }),
    ]
}

/// The tables of seeds and of operating name tests, and only compiled tests can be listed.
pub(crate) fn seeds_step(project: &Project) -> Step<'_> {
    Step::talking("tidy seeds", "cargo xtask tidy", || {
        let mut tables = project.texts(".md")?;
        tables.retain(|(path, _)| path.starts_with(seeds::SEEDS) || path.starts_with("docs/operating/"));
        if tables.is_empty() {
            return Ok(());
        }
        crate::test::require_nextest(project)?;
        let list = "nextest list --workspace --all-features --message-format json".split(' ');
        let known = seeds::Known {
            tests: seeds::parse_tests(&Cargo::new(list).output(project.root())?)?,
            examples: project
                .packages()?
                .iter()
                .flat_map(|package| package.examples.iter().cloned())
                .collect(),
            documents: links::Documents::new(&project.texts(".md")?, project.files()?),
        };
        report(&seeds::check(&tables, &known))
    })
}

/// The files with any of these endings.
fn texts(project: &Project, endings: &[&str]) -> Result<Vec<(String, String)>, String> {
    let found = endings.iter().map(|ending| project.texts(ending));
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The text of a list of exceptions, empty if there is none.
fn list(project: &Project, path: &str) -> Result<String, String> {
    Ok(project.texts(path)?.into_iter().next().map_or(String::new(), |(_, text)| text))
}

fn report(problems: &[Problem]) -> Result<(), String> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_fail_the_step_and_say_where_what_and_what_next() {
        assert_eq!(report(&[]), Ok(()));
        let problem = Problem::new("a.rs:3", "too long", "split it");
        assert_eq!(report(&[problem]).unwrap_err(), "  a.rs:3: too long; split it");
    }
}
