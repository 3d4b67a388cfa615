//! The namespace of a project's prompts, on which runner and producer must agree.

use std::path::{Path, PathBuf};

use weaver::core::name::Namespace;

use crate::config::{Config, Origin, keys};
use crate::exit::{Exit, Failure};

#[derive(Debug)]
pub(crate) struct ChosenNamespace {
    pub(crate) name: Namespace,
    pub(crate) because: String,
    /// Whether it was derived from the project's path.
    pub(crate) is_derived: bool,
}

/// The namespace of the settings (flag, variable or file), else the project's own.
pub(crate) fn namespace(config: &Config, project_root: &Path) -> Result<ChosenNamespace, Failure> {
    if *config.origin(keys::NAMESPACE) != Origin::Default {
        let name = Namespace::new(config.text(keys::NAMESPACE).to_owned())
            .map_err(|invalid| Failure::new(Exit::Usage, invalid.to_string()).next("choose another name"))?;
        let because = format!("set by {}", config.origin(keys::NAMESPACE));
        return Ok(ChosenNamespace { name, because, is_derived: false });
    }
    let name = weaver_agent::namespace::of_project(project_root)
        .map_err(|error| Failure::io(project_root, &error))?;
    let because =
        "derived from the project's path; set another with --namespace or WEAVER_NAMESPACE".to_owned();
    Ok(ChosenNamespace { name, because, is_derived: true })
}

/// Without symlinks: the namespace is derived from it.
pub(crate) fn canonical(project_root: &Path) -> Result<PathBuf, Failure> {
    project_root.canonicalize().map_err(|error| Failure::io(project_root, &error))
}
