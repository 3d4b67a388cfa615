//! Trying tokens until one fits.

use std::sync::Arc;

use tokio::sync::Semaphore;
use weaver_core::clock::{Clock, ManualClock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};
use weaver_server::security::{
    FAILURE_DELAY, FAILURES_MAX, FAILURES_WINDOW, NamespaceScope, Role, TokenText,
};

use crate::server::{Answer, Server, bearer};

const WRONG: &str = "Authorization: Bearer wrong\r\n";

/// A clock that says when the server waits for it.
#[derive(Debug, Clone)]
struct Watched {
    clock: ManualClock,
    asleep: Arc<Semaphore>,
}

impl Clock for Watched {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> Monotonic {
        self.clock.monotonic()
    }

    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        self.asleep.add_permits(1);
        self.clock.sleep_until(deadline)
    }
}

struct Bed {
    server: Server,
    watched: Watched,
}

impl Bed {
    async fn new() -> Self {
        let watched = Watched { clock: ManualClock::default(), asleep: Arc::new(Semaphore::new(0)) };
        let clock = Arc::new(watched.clone());
        let server = Server::start_with(move |options| options.clock = clock).await;
        Self { server, watched }
    }

    /// A request whose answer is held back: there is none before the clock moves on.
    async fn delayed(&self, headers: &str) -> Answer {
        let mut asked = std::pin::pin!(self.server.get("/whoami", headers));
        tokio::select! {
            answer = asked.as_mut() => panic!("answered without delay: {}", answer.status()),
            asleep = self.watched.asleep.acquire() => asleep.expect("it stays open").forget(),
        }
        self.watched.clock.advance(FAILURE_DELAY);
        asked.await
    }

    async fn exhaust(&self, headers: &str) {
        for _ in 0..FAILURES_MAX {
            self.server.get("/whoami", headers).await.refused(401, "token_invalid");
        }
    }
}

#[tokio::test]
async fn of_an_address_with_too_many_wrong_tokens_only_failures_are_held_back() {
    let bed = Bed::new().await;
    bed.exhaust(WRONG).await;
    let answer = bed.delayed(WRONG).await;
    answer.refused(429, "too_many_failed_tokens");
    assert_eq!(answer.header("connection"), Some("close"));
    let wait: u64 = answer.header("retry-after").and_then(|wait| wait.parse().ok()).expect("seconds");
    assert!((1..=FAILURES_WINDOW.as_secs() + 1).contains(&wait));
    let never_seen = bed.server.token(Role::Viewer, NamespaceScope::All).await;
    bed.server.get_as("/whoami", &never_seen).await.allowed();
    bed.server.get("/healthz", "").await.allowed();
    bed.watched.clock.advance(FAILURES_WINDOW);
    bed.server.get("/whoami", WRONG).await.refused(401, "token_invalid");
}

#[tokio::test]
async fn a_known_id_with_wrong_secrets_is_limited_and_its_owner_is_not() {
    let bed = Bed::new().await;
    let good = bed.server.token(Role::Viewer, NamespaceScope::All).await;
    bed.server.get_as("/whoami", &good).await.allowed();
    let guess = format!("wvr_{}_{}", good.id(), "0".repeat(64));
    let guess = bearer(&TokenText::parse(&guess).expect("its form is right"));
    bed.exhaust(&guess).await;
    bed.delayed(&guess).await.refused(429, "too_many_failed_tokens");
    bed.server.get_as("/whoami", &good).await.allowed();
    bed.server.tokens.revoke(&good.id()).await.expect("it is there");
    bed.delayed(&bearer(&good)).await.refused(429, "too_many_failed_tokens");
}

#[tokio::test]
async fn requests_without_a_token_are_no_guesses() {
    let server = Server::start().await;
    for _ in 0..=FAILURES_MAX {
        server.get("/whoami", "").await.refused(401, "token_missing");
    }
}
