//! Tokens that must not be accepted.

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::Clock;
use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect};
use weaver_core::time::Timestamp;
use weaver_server::security::{
    CACHE_TTL, NamespaceScope, NewToken, Role, TOKEN_KIND, TOKEN_PREFIX, TokenError, TokenHash, TokenText,
    Tokens, Unverified,
};

use crate::server::{Server, bearer, new_token, only};

#[tokio::test]
async fn a_request_without_a_token_is_refused_with_a_hint() {
    let server = Server::start().await;
    let answer = server.get("/whoami", "").await;
    let problem = answer.refused(401, "token_missing");
    assert!(problem.contains("Authorization: Bearer"), "{problem}");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"weaver\""));
}

#[tokio::test]
async fn a_token_that_differs_in_any_way_is_refused() {
    let server = Server::start().await;
    let token = server.token(Role::Admin, NamespaceScope::All).await;
    let good = token.expose();
    let id = token.id();
    let last = if good.ends_with('0') { '1' } else { '0' };
    for wrong in [
        format!("Bearer {}{last}", &good[..good.len() - 1]),
        format!("Bearer {TOKEN_PREFIX}{id}_{}", "0".repeat(64)),
        format!("Bearer {TOKEN_PREFIX}0123456789abcdef_{}", &good[good.len() - 64..]),
        format!("Bearer {}", &good[..good.len() - 1]),
        format!("Bearer {good}0"),
        format!("Bearer {}", good.to_uppercase()),
        format!("Bearer {id}"),
        "Bearer ".to_owned(),
        "Bearer".to_owned(),
        format!("Basic {good}"),
        format!("Token {good}"),
        good.to_owned(),
        format!("Bearer {good}\r\nAuthorization: Bearer {good}"),
    ] {
        let answer = server.get("/whoami", &format!("Authorization: {wrong}\r\n")).await;
        let problem = answer.refused(401, "token_invalid");
        assert!(
            answer.header("www-authenticate").is_some_and(|challenge| challenge.contains("invalid_token"))
        );
        assert!(!problem.contains(&good[good.len() - 32..]), "the answer repeats the secret: {problem}");
    }
    server.get_as("/whoami", &token).await.allowed();
    server.get("/whoami", &format!("authorization: bEARER {good}\r\n")).await.allowed();
}

#[tokio::test]
async fn a_token_in_the_url_or_in_a_cookie_is_ignored() {
    let server = Server::start().await;
    let token = server.token(Role::Admin, NamespaceScope::All).await;
    let text = token.expose();
    for name in ["token", "access_token", "authorization"] {
        server.get(&format!("/whoami?{name}={text}"), "").await.refused(401, "token_missing");
        server.get("/whoami", &format!("Cookie: {name}={text}\r\n")).await.refused(401, "token_missing");
    }
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once() {
    let server = Server::start().await;
    let token = server.token(Role::Admin, NamespaceScope::All).await;
    server.get_as("/whoami", &token).await.allowed();
    server.tokens.revoke(&token.id()).await.expect("it is there");
    server.get_as("/whoami", &token).await.refused(401, "token_invalid");
    assert_eq!(
        server.tokens.revoke(&token.id()).await,
        Err(TokenError::NotFound { id: token.id() }),
        "there is nothing left to revoke"
    );
}

#[tokio::test]
async fn a_token_revoked_by_another_server_is_refused_when_its_cache_entry_expires() {
    let server = Server::start().await;
    let token = server.token(Role::Admin, NamespaceScope::All).await;
    server.get_as("/whoami", &token).await.allowed();
    let elsewhere = Tokens::new(Arc::clone(&server.store), Arc::new(server.clock.clone()));
    elsewhere.revoke(&token.id()).await.expect("it is there");
    server.clock.advance(CACHE_TTL);
    server.get_as("/whoami", &token).await.refused(401, "token_invalid");
    assert!(!server.tokens.has_seen(&token.id()));
}

#[tokio::test]
async fn an_expired_token_is_refused_even_while_it_is_cached() {
    let server = Server::start().await;
    let expires_at = server.clock.now().saturating_add(Duration::from_secs(2));
    let new = NewToken { expires_at: Some(expires_at), ..new_token(Role::Admin, NamespaceScope::All) };
    let token = server.tokens.create(new).await.expect("a token").0;
    server.get_as("/whoami", &token).await.allowed();
    server.clock.advance(Duration::from_secs(2));
    let problem = server.get_as("/whoami", &token).await.refused(401, "token_expired");
    assert!(problem.contains(&expires_at.to_string()), "{problem}");
    let wrong = TokenText::parse(&format!("{TOKEN_PREFIX}{}_{}", token.id(), "0".repeat(64)))
        .expect("its form is right");
    server.get_as("/whoami", &wrong).await.refused(401, "token_invalid");
}

#[tokio::test]
async fn neither_the_store_nor_the_list_contains_the_secret_of_a_token() {
    let server = Server::start().await;
    let token = server.token(Role::Admin, NamespaceScope::All).await;
    let secret = &token.expose()[token.expose().len() - 64..];
    let namespace = Namespace::new("weaver.internal").expect("a name");
    let page = server.store.list_documents(&namespace, TOKEN_KIND, "", None, 10).await.expect("documents");
    let stored = String::from_utf8(page.items[0].body.to_vec()).expect("JSON");
    assert!(stored.contains("\"hash\"") && !stored.contains(secret), "{stored}");
    let listed = server.tokens.list(None, 10).await.expect("a list").items;
    let shown = serde_json::to_string(&listed).expect("JSON");
    assert!(
        shown.contains(token.id().as_str()) && !shown.contains(secret) && !shown.contains("hash"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_hash_copied_to_another_token_id_is_not_valid() {
    let server = Server::start().await;
    let token = server.token(Role::Viewer, only("a")).await;
    let namespace = Namespace::new("weaver.internal").expect("a name");
    let page = server.store.list_documents(&namespace, TOKEN_KIND, "", None, 10).await.expect("documents");
    let copy = DocumentKey::new(namespace, TOKEN_KIND, "00000000000000ff");
    server
        .store
        .put_document(&copy, page.items[0].body.clone(), Expect::Absent, None)
        .await
        .expect("written");
    let secret = &token.expose()[token.expose().len() - 64..];
    let forged =
        TokenText::parse(&format!("{TOKEN_PREFIX}00000000000000ff_{secret}")).expect("its form is right");
    assert_eq!(server.tokens.verify(&forged).await, Err(Unverified::Unknown));
}

#[tokio::test]
async fn tokens_are_256_random_bits_and_never_the_same() {
    let server = Server::start().await;
    let mut texts = std::collections::HashSet::new();
    for _ in 0..100 {
        let token = server.token(Role::Viewer, only("a")).await;
        assert!(token.expose().starts_with("wvr_") && token.expose().len() == 4 + 16 + 1 + 64);
        assert!(texts.insert(token.expose()[21..].to_owned()));
    }
    let digits: std::collections::HashSet<char> = texts.iter().flat_map(|text| text.chars()).collect();
    assert_eq!(digits.len(), 16);
}

#[tokio::test]
async fn a_token_with_invalid_options_is_not_created() {
    let server = Server::start().await;
    let viewer = || new_token(Role::Viewer, only("a"));
    for (field, wrong) in [
        ("namespaces", new_token(Role::Viewer, NamespaceScope::only([]))),
        ("namespaces", new_token(Role::Viewer, only("weaver.internal"))),
        ("may_exec", NewToken { may_exec: true, ..viewer() }),
        ("expires_at", NewToken { expires_at: Some(Timestamp::MIN), ..viewer() }),
    ] {
        let refusal = server.tokens.create(wrong).await.expect_err(field);
        assert!(matches!(refusal, TokenError::Invalid { field: found, .. } if found == field), "{refusal}");
    }
    assert!(server.tokens.create(NewToken { name: "a\nb".into(), ..viewer() }).await.is_err());
}

#[tokio::test]
async fn handlers_never_see_the_token() {
    let server = Server::start().await;
    let token = server.token(Role::Viewer, only("a")).await;
    let seen = server.get("/headers", &bearer(&token)).await;
    assert!(!seen.allowed().contains("wvr_"), "{}", seen.text);
}

/// `witness` is ambiguous, and this does not compile, for a type that can be compared with `==`.
trait OnlyConstantTime<Marker> {
    fn witness() {}
}
impl<T> OnlyConstantTime<()> for T {}
impl<T: PartialEq> OnlyConstantTime<u8> for T {}

#[test]
fn secrets_can_only_be_compared_in_constant_time() {
    <TokenHash as OnlyConstantTime<_>>::witness();
    <TokenText as OnlyConstantTime<_>>::witness();
    let text = |last: char| {
        TokenText::parse(&format!("wvr_0123456789abcdef_{}{last}", "0".repeat(63))).expect("its form")
    };
    assert!(text('a').hash().matches(&text('a').hash()));
    assert!(!text('a').hash().matches(&text('b').hash()));
}
