//! The part of `cargo metadata` that the checks look at.

use std::collections::HashSet;

use serde_json::Value;

/// A package of the resolved graph, ours or a dependency.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    /// Part of this workspace.
    pub(crate) member: bool,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) examples: Vec<String>,
    /// Where its manifest is, from the workspace's root; of other packages, an absolute path.
    pub(crate) directory: String,
}

/// A dependency as the manifest declares it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Used by tests, examples and benchmarks only.
    pub(crate) dev: bool,
}

pub(crate) fn parse(json: &str) -> Result<Vec<Package>, String> {
    let root: Value =
        serde_json::from_str(json).map_err(|e| format!("`cargo metadata` wrote no valid JSON: {e}"))?;
    let members: HashSet<&str> = items(&root, "workspace_members").filter_map(Value::as_str).collect();
    let packages: Vec<Package> = items(&root, "packages")
        .map(|package| read(package, &members, root["workspace_root"].as_str()))
        .collect();
    if packages.is_empty() {
        return Err("`cargo metadata` lists no packages; is this the repository's root?".into());
    }
    Ok(packages)
}

fn read(package: &Value, members: &HashSet<&str>, root: Option<&str>) -> Package {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    let directory = manifest.strip_suffix("/Cargo.toml").unwrap_or(manifest);
    let inside =
        root.and_then(|root| directory.strip_prefix(root)).map(|inside| inside.trim_start_matches('/'));
    let is_example = |target: &&Value| items(target, "kind").any(|kind| kind == "example");
    Package {
        name: text(package, "name").unwrap_or_default(),
        version: text(package, "version").unwrap_or_default(),
        license: text(package, "license"),
        description: text(package, "description"),
        member: package["id"].as_str().is_some_and(|id| members.contains(id)),
        dependencies: items(package, "dependencies")
            .filter_map(|dep| Some(Dependency { name: text(dep, "name")?, dev: dep["kind"] == "dev" }))
            .collect(),
        directory: inside.unwrap_or(directory).to_owned(),
        examples: items(package, "targets").filter(is_example).filter_map(|t| text(t, "name")).collect(),
    }
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_with_kind_of_dependency_and_examples() {
        let json = r#"{"workspace_members": ["a-id"], "workspace_root": "/r", "packages": [
            {"id": "a-id", "manifest_path": "/r/crates/a/Cargo.toml", "name": "a", "version": "1.0.0",
             "license": "MIT", "description": null,
             "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}],
             "targets": [{"kind": ["lib"], "name": "a"}, {"kind": ["example"], "name": "hello"}]},
            {"id": "b-id", "name": "b", "version": "2.0.0", "license": null}]}"#;
        let packages = parse(json).unwrap();
        assert_eq!(packages[0].dependencies[0], Dependency { name: "b".into(), dev: false });
        assert_eq!(packages[0].dependencies[1], Dependency { name: "c".into(), dev: true });
        assert_eq!(packages[0].examples, ["hello"]);
        assert_eq!(packages[0].directory, "crates/a");
        assert!(packages[0].member && packages[0].description.is_none());
        assert!(!packages[1].member && packages[1].license.is_none());
    }

    #[test]
    fn an_empty_answer_is_an_error_rather_than_nothing_to_check() {
        assert!(parse("{}").is_err());
        assert!(parse("not json").is_err());
    }
}
