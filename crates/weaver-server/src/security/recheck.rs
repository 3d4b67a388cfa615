//! Verifying a caller again during a long poll or a stream.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;

use super::authenticate::{refusal_of, store_failed};
use super::guard::Guard;
use super::identity::Identity;
use super::refusal::Refusal;
use super::sessions::Secret;
use super::token_text::TokenId;

/// How often the caller of a waiting request is verified again, besides on every wake-up. Verification is
/// cached ([`CACHE_TTL`](super::CACHE_TTL)).
pub const RECHECK_EVERY: Duration = Duration::from_secs(5);

/// The credential of a request. In the request's extensions; none without tokens and for local admins.
#[derive(Clone)]
pub(crate) struct Recheck {
    guard: Arc<Guard>,
    credential: Credential,
}

#[derive(Clone)]
enum Credential {
    /// The secret was verified when the request arrived; since then the token can expire or be revoked.
    Token(TokenId),
    Session(Secret),
}

impl Recheck {
    pub(crate) fn of_token(guard: &Arc<Guard>, identity: &Identity) -> Option<Self> {
        let credential = Credential::Token(identity.token.clone()?);
        Some(Self { guard: Arc::clone(guard), credential })
    }

    pub(crate) fn of_session(guard: &Arc<Guard>, secret: Secret) -> Self {
        Self { guard: Arc::clone(guard), credential: Credential::Session(secret) }
    }

    /// The current identity, or why the credential is no longer valid.
    pub(crate) async fn verify(&self) -> Result<Identity, Refusal> {
        match (&self.credential, &self.guard.tokens, self.guard.sessions()) {
            (Credential::Token(id), Some(tokens), _) => tokens.identity_of(id).await.map_err(refusal_of),
            (Credential::Session(secret), _, Some(sessions)) => {
                let found = sessions.verify(secret).await.map_err(|error| store_failed(&error))?;
                found.ok_or_else(logged_out)
            }
            _ => Ok(Identity::local()),
        }
    }
}

impl fmt::Debug for Recheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Recheck").finish_non_exhaustive()
    }
}

fn logged_out() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "logged_out",
        "the session ended: logged out, expired, or its token was revoked",
        "log in again",
    )
}
