//! Finding a program in `PATH`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds a program: a path is relative to `directory`, a name is searched for in the absolute directories of
/// `path`.
///
/// # Errors
/// If there is no executable file; the message says what to do.
pub fn find(program: &OsStr, directory: &Path, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let shown = program.to_string_lossy();
    if shown.contains('/') {
        let found = directory.join(program);
        return match is_executable(&found) {
            true => Ok(found),
            false => Err(format!("cannot run `{shown}`: {} is not an executable file", found.display())),
        };
    }
    let directories = path.map(std::env::split_paths).into_iter().flatten();
    // A relative entry would name another program in every directory.
    let mut candidates = directories.filter(|dir| dir.is_absolute()).map(|dir| dir.join(program));
    candidates.find(|candidate| is_executable(candidate)).ok_or_else(|| {
        format!("cannot run `{shown}`: no such program in PATH; install it, or use its absolute path")
    })
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_absolute_directories_only_and_a_missing_one_is_named() {
        let path = OsStr::new(".:/bin:/usr/bin");
        let find = |name: &str, path| super::find(OsStr::new(name), Path::new("/"), path);
        assert!(find("sh", Some(path)).unwrap().is_absolute());
        assert_eq!(find("bin/sh", None), Ok(PathBuf::from("/bin/sh")));
        let missing = find("no-such-agent", Some(path)).unwrap_err();
        assert!(missing.contains("no-such-agent") && missing.contains("PATH"), "{missing}");
        let file = find("./etc/passwd", None).unwrap_err();
        assert!(file.contains("is not an executable file"), "{file}");
    }
}
