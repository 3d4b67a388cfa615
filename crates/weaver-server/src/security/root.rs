//! The first token: made when there is none, kept in a file only its owner can read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::role::Role;
use super::scope::NamespaceScope;
use super::token::TokenText;
use super::tokens::{NewToken, TokenError, Tokens, Unverified};

/// The file's name, in the server's directory.
pub const ROOT_TOKEN_FILE: &str = "root.token";

/// Longer than any token with its line end; what is longer is none.
const FILE_MAX_BYTES: u64 = 256;

/// Why there is no root token.
#[derive(Debug, thiserror::Error)]
pub enum RootTokenError {
    /// The file cannot be read or written.
    #[error("the root token's file {}: {source}; check the directory and its permissions", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read it, so it may be known to them.
    #[error(
        "the root token's file {} can be read or changed by others (mode {mode:o}): it may be known to them; delete \
         the file and restart the server for a new token, or run `chmod 600` on it if nobody else was on the machine",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// There is something else in it.
    #[error("the root token's file {} holds no token; delete it and restart the server for a new one", path.display())]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
    /// The store did not answer.
    #[error("the root token: {0}")]
    Store(#[from] TokenError),
}

/// The root token of the server whose directory this is: the one in the file if the store knows it, else a new one,
/// which replaces the file. For the start of a server; it reads and writes the disk in place.
///
/// A token in the file that the store does not know is never taken over: it may have been revoked.
pub async fn root_token(directory: &Path, tokens: &Tokens) -> Result<TokenText, RootTokenError> {
    if let Some(text) = read_root_token(directory)? {
        match tokens.verify(&text).await {
            Ok(_) => return Ok(text),
            Err(Unverified::Store(error)) => return Err(TokenError::from(error).into()),
            Err(Unverified::Unknown | Unverified::Expired { .. }) => {}
        }
    }
    let text = TokenText::random();
    // The file first: a crash in between leaves a file the store does not know, which the next start replaces. The
    // other way round it would leave an admin's token in the list that nobody has.
    write(directory, &text)?;
    let new = NewToken {
        name: "root".to_owned(),
        role: Role::Admin,
        namespaces: NamespaceScope::All,
        may_exec: true,
        expires_at: None,
        created_by: "first start".to_owned(),
    };
    tokens.register(&text, new).await?;
    Ok(text)
}

/// The root token in a server's directory, if there is one: for the command line on the same machine.
pub fn read_root_token(directory: &Path) -> Result<Option<TokenText>, RootTokenError> {
    let path = directory.join(ROOT_TOKEN_FILE);
    let failed = |source| RootTokenError::File { path: path.clone(), source };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // Of the file that was opened, not of the path, which may be another by now.
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(RootTokenError::Exposed { path, mode });
    }
    let mut text = String::new();
    match file.take(FILE_MAX_BYTES).read_to_string(&mut text) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(failed(error)),
        _ => TokenText::parse(text.trim_end()).map(Some).map_err(|_| RootTokenError::NotAToken { path }),
    }
}

/// Whole or not at all, and never readable by others, not even for a moment.
fn write(directory: &Path, text: &TokenText) -> Result<(), RootTokenError> {
    let path = directory.join(ROOT_TOKEN_FILE);
    let failed = |source| RootTokenError::File { path: path.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let draft = directory.join(format!(".{ROOT_TOKEN_FILE}.{}", text.id()));
    let written = write_draft(&draft, text).and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        let _ = fs::remove_file(&draft); // The first error is the one to report.
    }
    written.map_err(failed)?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
}

fn write_draft(draft: &Path, text: &TokenText) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    // The mode above is cut by the umask, which can only take away; this says it outright.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    writeln!(file, "{}", text.expose())?;
    file.sync_all()
}
