//! A memory budget for request bodies, for the server and for each token (ADR 0023).
//!
//! The declared length of a body is reserved before any of it is read. Where the budget is used up, the body
//! stays unread in the client's socket: backpressure. A token that sends a hundred bodies and finishes none
//! uses up its own share, and nothing else.

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

/// How long a body waits for the budget before it is refused.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Reserved per step for a body without `Content-Length`.
const STEP_BYTES: usize = 64 * 1024;

/// The budget, and how much of it is reserved.
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
    /// A share is never smaller than one body: otherwise a large body would always be refused.
    pub(crate) fn new(budget: usize, share: usize, body_max: usize) -> Self {
        let share = share.max(body_max);
        Self { budget: budget.max(share), share, used: Mutex::default(), freed: Notify::new() }
    }

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

/// A reservation, released on drop.
struct Reserved<'a> {
    bodies: &'a Bodies,
    sender: Arc<str>,
    bytes: usize,
}

impl<'a> Reserved<'a> {
    /// Reserves memory. Small bodies overtake large ones that wait: lease renewals are not held up by
    /// uploads.
    async fn take(state: &'a AppState, sender: Arc<str>, bytes: usize) -> Result<Self, Problem> {
        let bodies = &*state.bodies;
        let deadline = state.clock.monotonic().saturating_add(WAIT_MAX);
        loop {
            let freed = bodies.freed.notified();
            let mut freed = std::pin::pin!(freed);
            // Before the attempt to reserve: a release after it wakes this waiter.
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

    /// Reserves more for a body of unknown length. It does not wait: what it has read already would block
    /// other bodies.
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
                format!("request bodies of this token exceed its share of {} bytes", bodies.share),
                "finish or abort the uploads under way, then retry",
            ),
            Self::Budget => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "body_budget_exhausted",
                "the server's memory budget for request bodies is used up",
                "retry later",
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
        // By doubling, but never beyond the reservation: a body costs its length, not the next power of two.
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
            format!("no part of the body was received for {:?}", state.limits.body_timeout),
            "send the body without pauses",
        )),
    }
}

/// The key of the share: the token, or the address of an anonymous client.
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
        format!("the body is larger than {max} bytes"),
        "send smaller batches",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_is_limited_to_its_share_and_all_of_them_to_the_budget() {
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
