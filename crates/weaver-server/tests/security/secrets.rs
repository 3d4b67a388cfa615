//! Secrets that must not be printed.

use std::fs;
use std::sync::Arc;

use weaver_core::clock::ManualClock;
use weaver_embedded::EmbeddedStore;
use weaver_server::security::{
    Guard, GuardOptions, NamespaceScope, NewToken, NotAToken, PrivateFileError, Role, TokenText, Tokens,
    read_private,
};

use crate::log::Log;
use crate::server::{Scratch, Server, bearer, new_token, only};

#[tokio::test]
async fn no_type_prints_the_secret_it_holds() {
    let server = Server::start().await;
    let (text, info) =
        server.tokens.create(new_token(Role::Admin, NamespaceScope::All)).await.expect("a token");
    let identity = server.tokens.verify(&text).await.expect("it is good");
    let options = GuardOptions {
        tokens: Some(Arc::clone(&server.tokens)),
        clock: Arc::new(server.clock.clone()),
        listen: server.address,
        hosts: Vec::new(),
        tls: false,
        behind_proxy: false,
    };
    let guard = Guard::new(options.clone()).expect("no hosts");
    let wrong = TokenText::parse(&format!("{}x", text.expose())).expect_err("too long");
    let refusal = identity.require_enqueue(&name("weaver.internal"), &task_type()).expect_err("internal");
    let printed = [
        format!("{text:?} {text:#?} {:?} {:#?}", text.hash(), text.hash()),
        format!("{info:?} {identity:?} {:?} {}", text.id(), text.id()),
        format!("{:?} {guard:?} {options:#?}", server.tokens),
        format!("{wrong} {wrong:?} {NotAToken} {refusal} {refusal:?}"),
        format!("{:?}", server.tokens.list(None, 10).await),
        format!("{:?}", server.tokens.verify(&flipped(&text)).await),
        format!("{:?}", server.tokens.revoke(&text.id()).await),
    ];
    let secret = &text.expose()[21..];
    let hash = serde_json::to_string(&text.hash()).expect("the store's form");
    for print in printed {
        assert!(!print.contains(&secret[..8]) && !print.contains(hash.trim_matches('"')), "{print}");
    }
}

#[tokio::test]
async fn the_embedded_stores_files_do_not_contain_the_token() {
    let scratch = Scratch::new();
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(EmbeddedStore::open(scratch.path().join("store"), clock.clone()).expect("a store"));
    let tokens = Tokens::new(store.clone(), clock);
    let new = NewToken {
        name: "x".to_owned(),
        role: Role::Admin,
        namespaces: NamespaceScope::All,
        may_exec: true,
        expires_at: None,
        created_by: "test".to_owned(),
    };
    let (text, _) = tokens.create(new).await.expect("a token");
    drop((tokens, store));
    let (id, secret) = (text.id(), &text.expose()[21..]);
    let mut id_is_there = false;
    for file in fs::read_dir(scratch.path().join("store")).expect("a directory") {
        let bytes = fs::read(file.expect("a file").path()).expect("it can be read");
        let has = |needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
        id_is_there |= has(id.as_str());
        assert!(!has(secret) && !has(&secret[..16]));
    }
    assert!(id_is_there, "the test reads the wrong files");
}

#[tokio::test]
async fn the_log_of_good_and_bad_requests_has_no_secret() {
    let log = Log::default();
    let _listening = tracing::subscriber::set_default(log.clone());
    let server = Server::start().await;
    let root = server.token(Role::Admin, NamespaceScope::All).await;
    let viewer = server.token(Role::Viewer, only("a")).await;
    server.get_as("/whoami", &root).await.allowed();
    server.get_as("/read/b", &viewer).await.refused(403, "namespace_not_allowed");
    server.get_as("/whoami", &flipped(&root)).await.refused(401, "token_invalid");
    server.get("/whoami", &bearer(&root).replace("Bearer", "Basic")).await.refused(401, "token_invalid");
    let text = log.0.lock().clone();
    assert!(text.contains("token_invalid"), "the test captured no log: {text}");
    for secret in [&root.expose()[21..], &viewer.expose()[21..]] {
        assert!(!text.contains(&secret[..8]), "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_not_quoted() {
    let scratch = Scratch::new();
    let refusal = read_private(scratch.path(), 10).expect_err("a directory is no file");
    assert!(
        matches!(refusal, PrivateFileError::File { .. } | PrivateFileError::Exposed { .. }),
        "{refusal:?}"
    );
}

fn flipped(text: &TokenText) -> TokenText {
    let (head, last) = text.expose().split_at(text.expose().len() - 1);
    TokenText::parse(&format!("{head}{}", if last == "0" { '1' } else { '0' })).expect("its form is right")
}

fn name(text: &'static str) -> weaver_core::name::Namespace {
    weaver_core::name::Namespace::new(text).expect("a name")
}

fn task_type() -> weaver_core::name::TaskType {
    weaver_core::name::TaskType::new("mail").expect("a name")
}
