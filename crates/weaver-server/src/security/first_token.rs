//! A first admin token from a file, where no operator can reach the Unix socket: containers.

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

/// Documents of tokens that were registered from a file before: each is registered once.
const TAKEN_KIND: &str = "weaver.first-token";

/// Longer than any token with its newline; a longer file is not a token.
const FILE_MAX_BYTES: u64 = 256;

/// Why the first token could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum FirstTokenError {
    /// The file cannot be read or written, or other users can read it.
    #[error("serve.admin_token_file: {0}")]
    File(#[from] PrivateFileError),
    /// The file's content is not a token.
    #[error(
        "serve.admin_token_file: {} does not contain a token; delete it and restart the server to create one",
        path.display()
    )]
    NotAToken {
        /// As configured in `serve.admin_token_file`.
        path: PathBuf,
    },
    /// The token could not be verified or stored.
    #[error("serve.admin_token_file: {0}")]
    Store(#[from] TokenError),
}

/// The result of [`first_token`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum FirstToken {
    /// Registered now, as an admin token with `may_exec`.
    Registered(TokenId),
    /// Registered before, and still valid.
    Known(TokenId),
    /// Registered before, and revoked or expired since: it is not registered again.
    Revoked(TokenId),
}

/// Registers the token in a file as an admin token, once: a revoked token is not registered again on restart.
/// A missing file is created, with a new token. For the start of a server: it does blocking file I/O.
pub async fn first_token(path: &Path, tokens: &Tokens) -> Result<FirstToken, FirstTokenError> {
    let text = match read_private(path, FILE_MAX_BYTES)? {
        Some(content) => {
            let text = String::from_utf8_lossy(&content);
            TokenText::parse(text.trim_end())
                .map_err(|_| FirstTokenError::NotAToken { path: path.to_owned() })?
        }
        None => {
            let text = TokenText::random();
            // The file first: after a crash in between, the next start registers the token. The other way
            // round would leave an admin token in the store that no client has.
            write_private(path, format!("{}\n", text.expose()).as_bytes())?;
            text
        }
    };
    let id = text.id();
    match tokens.verify(&text).await {
        Ok(_) => {
            // Again: the last start may have crashed between the two writes.
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
