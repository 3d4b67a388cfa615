//! A first admin token from a file, for servers whose socket no operator can reach: containers and
//! orchestrators.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use weaver_core::error::Error;
use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect};

use super::private::{PrivateFileError, read_private, write_private};
use super::role::Role;
use super::scope::NamespaceScope;
use super::token_text::{TokenId, TokenText};
use super::tokens::{NewToken, TokenError, Tokens, Unverified};

/// The kind of the documents that say which tokens were taken from a file before: each is taken once.
const TAKEN_KIND: &str = "weaver.first-token";

/// Longer than any token with its line end; what is longer is none.
const FILE_MAX_BYTES: u64 = 256;

/// Why there is no first token.
#[derive(Debug, thiserror::Error)]
pub enum FirstTokenError {
    /// The file is not used.
    #[error("serve.admin_token_file: {0}")]
    File(#[from] PrivateFileError),
    /// There is something else in it.
    #[error(
        "serve.admin_token_file: {} holds no token; delete it and restart the server for a new one",
        path.display()
    )]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
    /// The store did not answer.
    #[error("serve.admin_token_file: {0}")]
    Store(#[from] TokenError),
}

/// What became of the token in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum FirstToken {
    /// It is an admin's from now on.
    Registered(TokenId),
    /// The store knows it.
    Known(TokenId),
    /// It was registered before and has been revoked or has expired since. It stays so.
    Revoked(TokenId),
}

/// Makes the token in a file an admin's, once: a token that was revoked does not come back with a restart. If
/// there is no such file it is made, with a new token. For the start of a server; it reads and writes the
/// disk in place.
pub async fn first_token(path: &Path, tokens: &Tokens) -> Result<FirstToken, FirstTokenError> {
    let text = match read_private(path, FILE_MAX_BYTES)? {
        Some(content) => {
            let text = String::from_utf8_lossy(&content);
            TokenText::parse(text.trim_end())
                .map_err(|_| FirstTokenError::NotAToken { path: path.to_owned() })?
        }
        None => {
            let text = TokenText::random();
            // The file first: a crash in between leaves a token that the next start registers. The other way
            // round it would leave an admin's token in the store that no client has.
            write_private(path, format!("{}\n", text.expose()).as_bytes())?;
            text
        }
    };
    let id = text.id();
    match tokens.verify(&text).await {
        Ok(_) => {
            // Again: a crash may have come between the token and this.
            mark_taken(&id, tokens).await?;
            return Ok(FirstToken::Known(id));
        }
        Err(Unverified::Store(error)) => return Err(TokenError::from(error).into()),
        Err(Unverified::Unknown | Unverified::Expired { .. }) => {}
    }
    if is_taken(&id, tokens).await? {
        return Ok(FirstToken::Revoked(id));
    }
    let new = NewToken {
        name: "admin-token-file".to_owned(),
        role: Role::Admin,
        namespaces: NamespaceScope::All,
        may_exec: true,
        expires_at: None,
        created_by: "serve.admin_token_file".to_owned(),
    };
    tokens.register(&text, new).await?;
    mark_taken(&id, tokens).await?;
    Ok(FirstToken::Registered(id))
}

async fn mark_taken(id: &TokenId, tokens: &Tokens) -> Result<(), TokenError> {
    let put = tokens.store().put_document(&taken(id), Bytes::from_static(b"{}"), Expect::Absent, None).await;
    match put {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn is_taken(id: &TokenId, tokens: &Tokens) -> Result<bool, TokenError> {
    Ok(tokens.store().get_document(&taken(id)).await?.is_some())
}

fn taken(id: &TokenId) -> DocumentKey {
    DocumentKey::new(Namespace::internal(), TAKEN_KIND, id.as_str())
}
