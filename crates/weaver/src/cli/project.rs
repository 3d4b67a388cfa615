//! Which prompts belong to a project: the namespace that runner and producer must agree on.

use std::path::{Path, PathBuf};

use weaver::core::name::Namespace;

use crate::config::{Config, Origin, keys};
use crate::exit::{Exit, Failure};

/// A namespace, and why this one.
#[derive(Debug)]
pub(crate) struct ChosenNamespace {
    pub(crate) name: Namespace,
    pub(crate) because: String,
    /// Whether nobody said it.
    pub(crate) is_derived: bool,
}

/// The one that was named (by flag, variable or file, in this order), else the project's own.
pub(crate) fn namespace(config: &Config, project_root: &Path) -> Result<ChosenNamespace, Failure> {
    if *config.origin(keys::NAMESPACE) != Origin::Default {
        let name = Namespace::new(config.text(keys::NAMESPACE).to_owned())
            .map_err(|invalid| Failure::new(Exit::Usage, invalid.to_string()).next("give another name"))?;
        let because = format!("named by {}", config.origin(keys::NAMESPACE));
        return Ok(ChosenNamespace { name, because, is_derived: false });
    }
    let name = weaver_agent::namespace::of_project(project_root)
        .map_err(|error| Failure::io(project_root, &error))?;
    let because = "made of the project's path; --namespace or WEAVER_NAMESPACE name another".to_owned();
    Ok(ChosenNamespace { name, because, is_derived: true })
}

/// The one true path of a project.
pub(crate) fn canonical(project_root: &Path) -> Result<PathBuf, Failure> {
    project_root.canonicalize().map_err(|error| Failure::io(project_root, &error))
}
