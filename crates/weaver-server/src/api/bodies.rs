//! Bodies of requests within a budget: of the whole server, and of each token (ADR 0023).
//!
//! What a body says it is long is reserved before any of it is read; what is not left is waited for, unread,
//! in the client's own socket. A token that sends a hundred bodies and finishes none holds its own share, and
//! nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::time::Monotonic;

use super::AppState;
use crate::problem::Problem;
use crate::security::{ClientAddress, Identity};

/// How long a body waits for its part of the budget before it is refused.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// What is reserved at once for a body that does not say its length.
const STEP_BYTES: usize = 64 * 1024;

/// The bytes of bodies that are being read.
#[derive(Debug)]
pub(crate) struct Bodies {
    budget: usize,
    share: usize,
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Used {
    total: usize,
    by_sender: HashMap<Arc<str>, usize>,
}

impl Bodies {
    /// A share is never smaller than one body: nothing may be refused for ever.
    pub(crate) fn new(budget: usize, share: usize, body_max: usize) -> Self {
        let share = share.max(body_max);
        Self { budget: budget.max(share), share, used: Mutex::default(), freed: Notify::new() }
    }

    /// How many bytes are reserved now.
    pub(crate) fn reserved(&self) -> usize {
        self.used.lock().total
    }

    fn try_reserve(&self, sender: &Arc<str>, bytes: usize) -> Result<(), Exhausted> {
        let mut used = self.used.lock();
        let own = used.by_sender.get(sender).copied().unwrap_or(0);
        if own + bytes > self.share {
            return Err(Exhausted::Share);
        }
        if used.total + bytes > self.budget {
            return Err(Exhausted::Budget);
        }
        used.total += bytes;
        used.by_sender.insert(Arc::clone(sender), own + bytes);
        Ok(())
    }

    fn release(&self, sender: &Arc<str>, bytes: usize) {
        let mut used = self.used.lock();
        used.total -= bytes;
        if let Some(own) = used.by_sender.get_mut(sender) {
            *own -= bytes;
            if *own == 0 {
                used.by_sender.remove(sender);
            }
        }
        drop(used);
        self.freed.notify_waiters();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exhausted {
    Share,
    Budget,
}

/// A part of the budget; given back when it is dropped.
struct Reserved<'a> {
    bodies: &'a Bodies,
    sender: Arc<str>,
    bytes: usize,
}

impl<'a> Reserved<'a> {
    /// Takes a part. Small bodies pass large ones that wait: a worker's renewals do not stand behind its
    /// uploads.
    async fn take(state: &'a AppState, sender: Arc<str>, bytes: usize) -> Result<Self, Problem> {
        let bodies = &*state.bodies;
        let deadline = state.clock.monotonic().saturating_add(WAIT_MAX);
        loop {
            let freed = bodies.freed.notified();
            let mut freed = std::pin::pin!(freed);
            // Before the look: what is given back after it is heard.
            freed.as_mut().enable();
            let exhausted = match bodies.try_reserve(&sender, bytes) {
                Ok(()) => return Ok(Self { bodies, sender, bytes }),
                Err(exhausted) => exhausted,
            };
            tokio::select! {
                () = freed => {}
                () = state.clock.sleep_until(deadline) => return Err(exhausted.problem(bodies)),
            }
        }
    }

    /// Takes more for a body that turns out longer; it has read some, and waiting with that would hold up
    /// others.
    fn grow(&mut self, to: usize) -> Result<(), Problem> {
        let more = to.saturating_sub(self.bytes);
        self.bodies.try_reserve(&self.sender, more).map_err(|exhausted| exhausted.problem(self.bodies))?;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.bodies.release(&self.sender, self.bytes);
    }
}

impl Exhausted {
    fn problem(self, bodies: &Bodies) -> Problem {
        match self {
            Self::Share => Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "body_share_exhausted",
                format!("unfinished requests of this token hold {} bytes, all that one may", bodies.share),
                "finish or give up the requests under way, then send this one again",
            ),
            Self::Budget => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "body_budget_exhausted",
                "the server reads as many request bodies as it has memory for",
                "send the request again in a moment",
            ),
        }
    }
}

/// Reads a whole body of at most `max` bytes.
pub(crate) async fn read(state: &AppState, request: Request, max: usize) -> Result<Bytes, Problem> {
    let declared = declared(request.headers());
    if declared.is_some_and(|bytes| bytes > max) {
        return Err(too_large(max));
    }
    let mut reserved = Reserved::take(state, sender(&request), declared.unwrap_or(0)).await?;
    let mut stream = request.into_body().into_data_stream();
    let mut body = Vec::new();
    loop {
        let silent_until = state.clock.monotonic().saturating_add(state.limits.body_timeout);
        let Some(chunk) = next(state, &mut stream, silent_until).await? else { break };
        let chunk = chunk.map_err(|error| {
            Problem::bad_request("body_unreadable", error.to_string(), "send the request again")
        })?;
        let length = body.len() + chunk.len();
        if length > max {
            return Err(too_large(max));
        }
        if length > reserved.bytes {
            reserved.grow(length.next_multiple_of(STEP_BYTES).min(max))?;
        }
        // By doubling, but never beyond what is reserved: a body costs what it says, not the next power of
        // two.
        if length > body.capacity() {
            let capacity = (body.capacity() * 2).clamp(length, reserved.bytes.max(length));
            body.reserve_exact(capacity - body.len());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Bytes::from(body))
}

async fn next(
    state: &AppState,
    stream: &mut axum::body::BodyDataStream,
    silent_until: Monotonic,
) -> Result<Option<Result<Bytes, axum::Error>>, Problem> {
    tokio::select! {
        chunk = stream.next() => Ok(chunk),
        () = state.clock.sleep_until(silent_until) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_too_slow",
            format!("no part of the body came for {:?}", state.limits.body_timeout),
            "send the body without pauses",
        )),
    }
}

/// Whose share a body counts to.
fn sender(request: &Request) -> Arc<str> {
    let extensions = request.extensions();
    if let Some(identity) = extensions.get::<Identity>() {
        return identity.token.as_ref().map_or_else(|| Arc::clone(&identity.name), |id| id.as_str().into());
    }
    extensions
        .get::<ClientAddress>()
        .map_or_else(|| "anonymous".into(), |address| address.0.to_string().into())
}

fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body has more than {max} bytes"),
        "send smaller batches",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_gets_its_share_and_all_together_the_budget() {
        let bodies = Bodies::new(250, 100, 10);
        let [a, b, c] = ["a", "b", "c"].map(Arc::<str>::from);
        assert_eq!(bodies.try_reserve(&a, 100), Ok(()));
        assert_eq!(bodies.try_reserve(&a, 1), Err(Exhausted::Share));
        assert_eq!(bodies.try_reserve(&b, 100), Ok(()));
        assert_eq!(bodies.try_reserve(&c, 51), Err(Exhausted::Budget));
        assert_eq!(bodies.try_reserve(&c, 50), Ok(()));
        bodies.release(&a, 100);
        assert_eq!(bodies.reserved(), 150);
        assert_eq!(bodies.try_reserve(&c, 50), Ok(()));
    }
}
