//! The default namespace of a project: the name of its directory, and a part of the hash of its path, so that
//! projects of the same name differ. Runner and producer derive it independently, so it must be stable.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};
use weaver_core::name::Namespace;

/// The limit of the directory's name.
const NAME_MAX_CHARS: usize = 48;

/// The namespace of the project in this directory.
///
/// # Errors
/// If there is no such directory.
pub fn of_project(directory: &Path) -> io::Result<Namespace> {
    let path = directory.canonicalize()?;
    let hash = Sha256::digest(path.as_os_str().as_bytes());
    let short: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let name: String = path
        .file_name()
        .map_or_else(|| "root".into(), |name| name.to_string_lossy())
        .chars()
        .take(NAME_MAX_CHARS)
        .map(|c| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' })
        .collect();
    Ok(Namespace::new(format!("{name}-{short}")).expect("words and a hash, short enough for a name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_of_a_project_is_stable_and_independent_of_the_spelling_of_its_path() {
        // A literal: projects must find their prompts again after an update.
        assert_eq!(of_project(Path::new("/usr")).unwrap().as_str(), "usr-894d731f");
        assert_eq!(of_project(Path::new("/usr/../usr/.")).unwrap().as_str(), "usr-894d731f");
        assert!(of_project(Path::new("/")).unwrap().as_str().starts_with("root-"));
        assert!(of_project(Path::new("/no/such/project")).is_err());
    }

    #[test]
    fn projects_of_one_name_in_two_directories_have_different_namespaces() {
        let base = std::env::temp_dir().join(format!("weaver-namespace-{}", std::process::id()));
        let (one, two) = (base.join("a/my app"), base.join("b/my app"));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::create_dir_all(&two).unwrap();
        let (one, two) = (of_project(&one).unwrap(), of_project(&two).unwrap());
        std::fs::remove_dir_all(&base).unwrap();
        assert!(one.as_str().starts_with("my-app-") && two.as_str().starts_with("my-app-"));
        assert_ne!(one, two);
    }
}
