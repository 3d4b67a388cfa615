//! Trying tokens until one fits.

use weaver_server::security::{FAILURES_MAX, FAILURES_WINDOW, NamespaceScope, Role};

use crate::server::Server;

const WRONG: &str = "Authorization: Bearer wrong\r\n";

#[tokio::test]
async fn an_address_with_too_many_wrong_tokens_is_turned_away_for_a_while() {
    let server = Server::start().await;
    for _ in 0..FAILURES_MAX {
        server.get("/whoami", WRONG).await.refused(401, "token_invalid");
    }
    let answer = server.get("/whoami", WRONG).await;
    answer.refused(429, "too_many_failed_tokens");
    let wait: u64 = answer.header("retry-after").and_then(|wait| wait.parse().ok()).expect("seconds");
    assert!((1..=FAILURES_WINDOW.as_secs() + 1).contains(&wait));
    let never_seen = server.token(Role::Viewer, NamespaceScope::All).await;
    server.get_as("/whoami", &never_seen).await.refused(429, "too_many_failed_tokens");
    server.get("/healthz", "").await.allowed();
    server.clock.advance(FAILURES_WINDOW);
    server.get_as("/whoami", &never_seen).await.allowed();
}

#[tokio::test]
async fn a_neighbour_with_a_wrong_token_does_not_lock_out_one_that_was_good() {
    let server = Server::start().await;
    let good = server.token(Role::Viewer, NamespaceScope::All).await;
    server.get_as("/whoami", &good).await.allowed();
    for _ in 0..=FAILURES_MAX {
        server.get("/whoami", WRONG).await;
    }
    server.clock.advance(FAILURES_WINDOW / 2);
    server.get_as("/whoami", &good).await.allowed();
    server.tokens.revoke(&good.id()).await.expect("it is there");
    server.get_as("/whoami", &good).await.refused(429, "too_many_failed_tokens");
}

#[tokio::test]
async fn requests_without_a_token_are_no_guesses() {
    let server = Server::start().await;
    for _ in 0..=FAILURES_MAX {
        server.get("/whoami", "").await.refused(401, "token_missing");
    }
}
