//! Headers that a proxy writes, and that any client can forge.

use weaver_server::security::{FAILURES_MAX, NamespaceScope, Role};

use crate::server::{Server, bearer};

#[tokio::test]
async fn without_a_proxy_no_header_changes_the_clients_address() {
    let server = Server::start().await;
    let token = bearer(&server.token(Role::Viewer, NamespaceScope::All).await);
    let forwarded = "X-Forwarded-For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\n";
    assert_eq!(server.get("/address", &format!("{token}{forwarded}")).await.allowed(), "127.0.0.1");
    for number in 0..FAILURES_MAX {
        let wrong = format!("Authorization: Bearer wrong\r\nX-Forwarded-For: 9.9.9.{number}\r\n");
        server.get("/whoami", &wrong).await.refused(401, "token_invalid");
    }
    // One more is delayed, so the clock has to advance.
    let wrong = "Authorization: Bearer wrong\r\nX-Forwarded-For: 8.8.8.8\r\n";
    let mut asked = std::pin::pin!(server.get("/whoami", wrong));
    let answer = loop {
        tokio::select! {
            biased;
            answer = asked.as_mut() => break answer,
            () = tokio::task::yield_now() => server.clock.advance(std::time::Duration::from_micros(10)),
        }
    };
    answer.refused(429, "too_many_failed_tokens");
}

#[tokio::test]
async fn behind_a_proxy_only_the_entry_that_the_proxy_wrote_is_used() {
    let server = Server::start_with(|options| options.behind_proxy = true).await;
    let token = bearer(&server.token(Role::Viewer, NamespaceScope::All).await);
    for (headers, expected) in [
        ("X-Forwarded-For: 1.1.1.1, 9.9.9.9\r\n", "9.9.9.9"),
        ("X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 9.9.9.9\r\n", "9.9.9.9"),
        ("X-Forwarded-For: 9.9.9.9:1234\r\n", "9.9.9.9"),
        ("X-Forwarded-For: nonsense\r\n", "127.0.0.1"),
        ("X-Real-IP: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n", "127.0.0.1"),
        ("", "127.0.0.1"),
    ] {
        let answer = server.get("/address", &format!("{token}{headers}")).await;
        assert_eq!(answer.allowed(), expected, "{headers}");
    }
}

#[tokio::test]
async fn behind_a_proxy_no_header_authenticates_or_replaces_the_host() {
    let server = Server::start_with(|options| options.behind_proxy = true).await;
    let claims = "X-Forwarded-User: root\r\nX-Remote-User: root\r\nX-Auth-Request-User: root\r\nX-Forwarded-For: 127.0.0.1\r\n";
    server.get("/whoami", claims).await.refused(401, "token_missing");
    let request = "GET /healthz HTTP/1.1\r\nHost: attacker.example\r\nX-Forwarded-Host: localhost\r\nConnection: close\r\n\r\n";
    server.send(request).await.refused(421, "host_not_allowed");
}

#[tokio::test]
async fn behind_a_proxy_with_tls_its_own_pages_are_not_cross_site() {
    let server = Server::start_with(|options| {
        options.behind_proxy = true;
        options.hosts = vec!["jobs.example.org".to_owned()];
    })
    .await;
    let from = |origin: &str| {
        format!(
            "GET /healthz HTTP/1.1\r\nHost: jobs.example.org\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n"
        )
    };
    server.send(&from("https://jobs.example.org")).await.allowed();
    server.send(&from("https://jobs.example.org:8443")).await.refused(403, "cross_site");
    server.send(&from("https://other.example.org")).await.refused(403, "cross_site");
}
