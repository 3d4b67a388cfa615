//! Files with secrets: read only if no other user can read or change them, written with mode 0600.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a file with a secret is refused.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    /// The file cannot be read or written.
    #[error("{}: {source}; check the path and its permissions", path.display())]
    File {
        /// The path as configured.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Other users can read or change it.
    #[error(
        "{} can be read or changed by other users (mode {mode:o}); run `chmod 600 {}`, and replace the secret in it \
         if other users were on the machine",
        path.display(),
        path.display()
    )]
    Exposed {
        /// The path as configured.
        path: PathBuf,
        /// The permission bits, such as `0o644`.
        mode: u32,
    },
}

/// The first `max_bytes` of a file that only its owner can access; `None` if it does not exist.
///
/// A file owned by root may be readable by its group, as mounted secrets are (`0440`): the server's group.
pub fn read_private(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, PrivateFileError> {
    let failed = |source| PrivateFileError::File { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // Of the opened file, not of the path, which may name another by now.
    let metadata = file.metadata().map_err(failed)?;
    let mode = metadata.permissions().mode() & 0o777;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if mode & forbidden != 0 {
        return Err(PrivateFileError::Exposed { path: path.to_owned(), mode });
    }
    let mut content = Vec::new();
    file.take(max_bytes).read_to_end(&mut content).map_err(failed)?;
    Ok(Some(content))
}

/// Writes a file with mode 0600, atomically: it is never readable by other users, not even for a moment.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), PrivateFileError> {
    let failed = |source| PrivateFileError::File { path: path.to_owned(), source };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = directory.join(format!(".{name}.{}", std::process::id()));
    let written = write_draft(&draft, content).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft); // The first error is the one to report.
    }
    written.map_err(failed)?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
}

fn write_draft(draft: &Path, content: &[u8]) -> io::Result<()> {
    // Left by a crash: the name has this process id, so no other process writes it.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    // The umask may have removed bits from the mode above.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(content)?;
    file.sync_all()
}
