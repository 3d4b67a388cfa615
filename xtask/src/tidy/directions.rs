//! Dependencies between our crates point one way: core ← runtime ← services ← server ← weaver.

use super::Problem;
use crate::metadata::Package;

/// What each crate may use in its normal and build dependencies. Tests may use any crate of ours.
const ALLOWED: &[(&str, &[&str])] = &[
    ("weaver-core", &[]),
    // Stores know the ports and nothing that runs on them, so that any of them can be left out of a build.
    ("weaver-embedded", &["weaver-core"]),
    ("weaver-postgres", &["weaver-core"]),
    ("weaver-dynamodb", &["weaver-core"]),
    ("weaver-runtime", &["weaver-core"]),
    ("weaver-scheduler", &["weaver-core", "weaver-runtime"]),
    ("weaver-cluster", &["weaver-core"]),
    // One system call, and our only `unsafe`.
    ("weaver-idmap", &[]),
    // Commands that are not ours, for whatever runs them: prompts, checks, `exec`.
    ("weaver-process", &["weaver-core", "weaver-runtime", "weaver-idmap"]),
    // Built-in task handlers; the program that runs a worker registers them.
    ("weaver-handlers", &["weaver-core", "weaver-runtime", "weaver-process"]),
    ("weaver-agent", &["weaver-core", "weaver-runtime", "weaver-process"]),
    ("weaver-merge", &["weaver-core", "weaver-runtime", "weaver-process"]),
    // What server and client agree on. A server uses no client.
    ("weaver-api", &["weaver-core", "weaver-scheduler", "weaver-merge"]),
    ("weaver-client", &["weaver-core", "weaver-runtime", "weaver-api"]),
    (
        "weaver-server",
        &[
            "weaver-core",
            "weaver-runtime",
            "weaver-scheduler",
            "weaver-process",
            "weaver-agent",
            "weaver-merge",
            "weaver-api",
        ],
    ),
    // The façade's wiring is the only place that names a concrete store.
    (
        "weaver",
        &[
            "weaver-core",
            "weaver-embedded",
            "weaver-postgres",
            "weaver-dynamodb",
            "weaver-runtime",
            "weaver-api",
            "weaver-client",
            "weaver-cluster",
            "weaver-scheduler",
            "weaver-process",
            "weaver-handlers",
            "weaver-agent",
            "weaver-merge",
            "weaver-server",
        ],
    ),
    // In no list: both are dev-dependencies everywhere.
    ("weaver-testkit", &["weaver-core", "weaver-runtime"]),
    ("weaver-conformance", &["weaver-core", "weaver-testkit"]),
    // It must build when nothing else does.
    ("xtask", &[]),
];

const TABLE: &str = "ALLOWED in xtask/src/tidy/directions.rs";

pub(crate) fn check(packages: &[Package]) -> Vec<Problem> {
    let members: Vec<&Package> = packages.iter().filter(|package| package.member).collect();
    let ours = |name: &str| members.iter().any(|member| member.name == name);
    let mut problems = Vec::new();
    for member in &members {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == member.name) else {
            problems.push(Problem::new(
                format!("crate {}", member.name),
                "has no place in the order of crates",
                format!("add it, with what it may use, to {TABLE}"),
            ));
            continue;
        };
        for dependency in member.dependencies.iter().filter(|dependency| !dependency.dev) {
            if ours(&dependency.name) && !allowed.contains(&dependency.name.as_str()) {
                problems.push(Problem::new(
                    format!("crate {}", member.name),
                    format!("depends on {}, which points the wrong way", dependency.name),
                    format!("move the code, or put a port in weaver-core between them (order: {TABLE})"),
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn member(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependencies =
            dependencies.iter().map(|&(name, dev)| Dependency { name: name.into(), dev }).collect();
        Package { name: name.into(), member: true, dependencies, ..Package::default() }
    }

    #[test]
    fn the_intended_direction_passes_and_outside_crates_are_not_looked_at() {
        let core = member("weaver-core", &[("serde", false), ("weaver-testkit", true)]);
        let testkit = member("weaver-testkit", &[("weaver-core", false)]);
        assert_eq!(check(&[core, testkit]), []);
    }

    #[test]
    fn a_dependency_against_the_direction_fails() {
        let core = member("weaver-core", &[("weaver-runtime", false)]);
        let runtime = member("weaver-runtime", &[]);
        let problems = check(&[core, runtime]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().contains("weaver-core: depends on weaver-runtime"));
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        let weaver = member("weaver", &[("weaver-testkit", false)]);
        let testkit = member("weaver-testkit", &[]);
        assert_eq!(check(&[weaver, testkit]).len(), 1);
    }

    #[test]
    fn an_unknown_crate_must_be_added_to_the_table() {
        assert!(check(&[member("weaver-new", &[])])[0].to_string().contains("add it"));
    }

    #[test]
    fn the_table_has_no_cycle_because_each_crate_uses_only_crates_above_it() {
        for (place, (name, allowed)) in ALLOWED.iter().enumerate() {
            let above: Vec<&str> = ALLOWED[..place].iter().map(|(name, _)| *name).collect();
            for used in *allowed {
                assert!(above.contains(used), "{name} → {used}");
            }
        }
    }
}
