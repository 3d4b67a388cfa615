//! Every dependency can be used under a permissive licence.

use super::{Problem, spdx};
use crate::metadata::Package;

/// Licences that ask for no more than attribution. Adding one is a decision for the whole project.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0", // the list of certificate authorities: data, not code (ADR-0021)
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(crate) fn check(packages: &[Package]) -> Vec<Problem> {
    packages.iter().filter(|package| !package.member).filter_map(problem).collect()
}

fn problem(package: &Package) -> Option<Problem> {
    let place = format!("dependency {} {}", package.name, package.version);
    let Some(licence) = &package.license else {
        return Some(Problem::new(place, "its manifest names no licence", "use another crate"));
    };
    match spdx::satisfiable(licence, &|name| ALLOWED.contains(&name)) {
        Ok(true) => None,
        Ok(false) => Some(Problem::new(
            place,
            format!("licence `{licence}` is not on the list"),
            "use another crate, or extend ALLOWED in xtask/src/tidy/licences.rs and record why in an ADR",
        )),
        Err(error) => {
            let what = format!("licence `{licence}` cannot be read: {error}");
            Some(Problem::new(place, what, "use another version or crate"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(license: Option<&str>) -> Package {
        Package { name: "dep".into(), license: license.map(str::to_owned), ..Package::default() }
    }

    #[test]
    fn permissive_licences_pass() {
        let allowed = ["MIT", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "GPL-2.0 OR Zlib"];
        assert_eq!(check(&allowed.map(|licence| dependency(Some(licence)))), []);
    }

    #[test]
    fn a_copyleft_a_missing_and_an_unreadable_licence_fail() {
        let wrong = [Some("GPL-3.0-only"), Some("MIT AND MPL-2.0"), None, Some("MIT OR OR")];
        assert_eq!(check(&wrong.map(dependency)).len(), wrong.len());
    }

    #[test]
    fn cargo_deny_allows_the_same_licences() {
        let text = std::fs::read_to_string(crate::project::Project::find().unwrap().root().join("deny.toml"))
            .unwrap();
        let list = text.split_once("\nallow = [\n").unwrap().1.split_once("\n]").unwrap().0;
        let names: Vec<&str> = list.lines().filter_map(|line| line.split('"').nth(1)).collect();
        assert_eq!(names, ALLOWED);
    }

    #[test]
    fn our_own_packages_are_left_to_the_manifest_check() {
        assert_eq!(check(&[Package { member: true, ..dependency(None) }]), []);
    }
}
