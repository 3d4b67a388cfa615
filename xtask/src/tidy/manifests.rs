//! Every crate of ours says what it is and under which licence.

use super::Problem;
use crate::metadata::Package;

pub(crate) fn check(packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages.iter().filter(|package| package.member) {
        let place = format!("crate {}", package.name);
        if is_blank(package.description.as_deref()) {
            problems.push(Problem::new(&place, "has no `description`", "say in one line what it is for"));
        }
        if is_blank(package.license.as_deref()) {
            problems.push(Problem::new(&place, "has no `license`", "write `license.workspace = true`"));
        }
    }
    problems
}

fn is_blank(field: Option<&str>) -> bool {
    field.is_none_or(|text| text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_with_description_and_licence_passes() {
        let package = Package {
            member: true,
            description: Some("Stores tasks".into()),
            license: Some("MIT".into()),
            ..Package::default()
        };
        assert_eq!(check(&[package]), []);
    }

    #[test]
    fn each_missing_or_blank_field_is_a_problem() {
        let package = Package { member: true, description: Some(" ".into()), ..Package::default() };
        assert_eq!(check(&[package]).len(), 2);
    }
}
