//! The rate limit on failed tokens.

use std::sync::Arc;

use tokio::sync::Semaphore;
use weaver_core::clock::{Clock, ManualClock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};
use weaver_server::security::{
    FAILURE_DELAY, FAILURES_MAX, FAILURES_WINDOW, NamespaceScope, Role, TokenText,
};

use crate::server::{Server, TestResponse, bearer};

const WRONG: &str = "Authorization: Bearer wrong\r\n";

/// A clock that reports when the server waits for it.
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

struct Harness {
    server: Server,
    watched: Watched,
}

impl Harness {
    async fn new() -> Self {
        let watched = Watched { clock: ManualClock::default(), asleep: Arc::new(Semaphore::new(0)) };
        let clock = Arc::new(watched.clone());
        let server = Server::start_with(move |options| options.clock = clock).await;
        Self { server, watched }
    }

    /// A request whose response is delayed: there is none before the clock advances.
    async fn delayed(&self, headers: &str) -> TestResponse {
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
async fn of_an_address_with_too_many_failed_tokens_only_failures_are_delayed() {
    let harness = Harness::new().await;
    harness.exhaust(WRONG).await;
    let answer = harness.delayed(WRONG).await;
    answer.refused(429, "too_many_failed_tokens");
    assert_eq!(answer.header("connection"), Some("close"));
    let wait: u64 = answer.header("retry-after").and_then(|wait| wait.parse().ok()).expect("seconds");
    assert!((1..=FAILURES_WINDOW.as_secs() + 1).contains(&wait));
    let never_seen = harness.server.token(Role::Viewer, NamespaceScope::All).await;
    harness.server.get_as("/whoami", &never_seen).await.allowed();
    harness.server.get("/healthz", "").await.allowed();
    harness.watched.clock.advance(FAILURES_WINDOW);
    harness.server.get("/whoami", WRONG).await.refused(401, "token_invalid");
}

#[tokio::test]
async fn a_known_token_id_with_wrong_secrets_is_rate_limited_and_its_owner_is_not() {
    let harness = Harness::new().await;
    let good = harness.server.token(Role::Viewer, NamespaceScope::All).await;
    harness.server.get_as("/whoami", &good).await.allowed();
    let guess = format!("wvr_{}_{}", good.id(), "0".repeat(64));
    let guess = bearer(&TokenText::parse(&guess).expect("its form is right"));
    harness.exhaust(&guess).await;
    harness.delayed(&guess).await.refused(429, "too_many_failed_tokens");
    harness.server.get_as("/whoami", &good).await.allowed();
    harness.server.tokens.revoke(&good.id()).await.expect("it is there");
    harness.delayed(&bearer(&good)).await.refused(429, "too_many_failed_tokens");
}

#[tokio::test]
async fn requests_without_a_token_do_not_count_as_failed_tokens() {
    let server = Server::start().await;
    for _ in 0..=FAILURES_MAX {
        server.get("/whoami", "").await.refused(401, "token_missing");
    }
}
