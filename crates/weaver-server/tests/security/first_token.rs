//! The admin token of `serve.admin_token_file`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use weaver_core::clock::ManualClock;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_server::security::{
    FirstToken, FirstTokenError, NamespaceScope, PrivateFileError, Role, TokenText, Tokens, first_token,
};

use crate::server::Scratch;

fn tokens() -> Tokens {
    let clock = Arc::new(ManualClock::default());
    Tokens::new(Arc::new(InMemoryQueue::new(clock.clone())), clock)
}

fn text_in(file: &Path) -> TokenText {
    TokenText::parse(fs::read_to_string(file).expect("a file").trim_end()).expect("a token")
}

#[tokio::test]
async fn a_missing_token_file_is_created_with_an_admin_token_and_mode_0600() {
    let (scratch, tokens) = (Scratch::new(), tokens());
    let file = scratch.path().join("admin.token");
    let FirstToken::Registered(id) = first_token(&file, &tokens).await.expect("a token") else {
        panic!("not new")
    };
    assert_eq!(fs::metadata(&file).expect("a file").mode() & 0o7777, 0o600);
    let identity = tokens.verify(&text_in(&file)).await.expect("it is valid");
    assert_eq!((identity.role, identity.namespaces), (Role::Admin, NamespaceScope::All));
    assert_eq!(fs::read_dir(scratch.path()).expect("a directory").count(), 1, "no draft is left behind");
    assert_eq!(first_token(&file, &tokens).await.expect("a token"), FirstToken::Known(id));
    assert_eq!(tokens.list(None, 10).await.expect("a list").items.len(), 1);
}

#[tokio::test]
async fn a_mounted_token_is_registered_as_admin_once_and_stays_revoked() {
    let (scratch, tokens) = (Scratch::new(), tokens());
    let file = scratch.path().join("mounted");
    let text = format!("wvr_{}_{}", "1".repeat(16), "2".repeat(64));
    fs::write(&file, &text).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).expect("its mode");
    let text = TokenText::parse(&text).expect("a token");
    assert_eq!(first_token(&file, &tokens).await.expect("a token"), FirstToken::Registered(text.id()));
    tokens.verify(&text).await.expect("it is valid");
    tokens.revoke(&text.id()).await.expect("it is there");
    assert_eq!(first_token(&file, &tokens).await.expect("an answer"), FirstToken::Revoked(text.id()));
    assert!(tokens.verify(&text).await.is_err(), "a restart brings no revoked token back");
}

#[tokio::test]
async fn a_token_file_that_other_users_can_read_or_that_has_no_token_is_refused() {
    for mode in [0o644, 0o622, 0o604, 0o666] {
        let (scratch, tokens) = (Scratch::new(), tokens());
        let file = scratch.path().join("admin.token");
        fs::write(&file, format!("wvr_{}_{}", "1".repeat(16), "2".repeat(64))).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its mode");
        let refusal = first_token(&file, &tokens).await.expect_err("exposed");
        assert!(
            matches!(refusal, FirstTokenError::File(PrivateFileError::Exposed { mode: found, .. }) if found == mode),
            "{refusal:?}"
        );
        assert!(refusal.to_string().contains("chmod 600"), "{refusal}");
    }
    for content in ["", "secret-1", "wvr_1", &"x".repeat(1000)] {
        let scratch = Scratch::new();
        let file = scratch.path().join("admin.token");
        fs::write(&file, content).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
        let refusal = first_token(&file, &tokens()).await.expect_err("no token");
        assert!(matches!(refusal, FirstTokenError::NotAToken { .. }), "{refusal:?}");
        assert!(content.is_empty() || !refusal.to_string().contains(content), "{refusal}");
    }
}
