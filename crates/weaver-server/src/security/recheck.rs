//! Verifying again who is asking, while a request waits or a stream goes on.

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

/// How often the identity of a request that waits is verified again, besides on every wake-up. The look is
/// cached ([`CACHE_TTL`](super::CACHE_TTL)), so it costs no read of the store.
pub const RECHECK_EVERY: Duration = Duration::from_secs(5);

/// What a request was let in by. In the request's extensions, where it can lose its validity: a server that
/// asks for no tokens puts none there.
#[derive(Clone)]
pub(crate) struct Recheck {
    guard: Arc<Guard>,
    shown: Shown,
}

#[derive(Clone)]
enum Shown {
    /// The whole token was shown when the request came in; what can change since is whether it is still good.
    Token(TokenId),
    Session(Secret),
}

impl Recheck {
    pub(crate) fn of_token(guard: &Arc<Guard>, identity: &Identity) -> Option<Self> {
        let shown = Shown::Token(identity.token.clone()?);
        Some(Self { guard: Arc::clone(guard), shown })
    }

    pub(crate) fn of_session(guard: &Arc<Guard>, secret: Secret) -> Self {
        Self { guard: Arc::clone(guard), shown: Shown::Session(secret) }
    }

    /// Who is asking now, or why they may not any more.
    pub(crate) async fn verify(&self) -> Result<Identity, Refusal> {
        match (&self.shown, &self.guard.tokens, self.guard.sessions()) {
            (Shown::Token(id), Some(tokens), _) => tokens.identity_of(id).await.map_err(refusal_of),
            (Shown::Session(secret), _, Some(sessions)) => {
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
        "the session has ended: it was logged out, has expired, or its token was revoked",
        "log in again",
    )
}
