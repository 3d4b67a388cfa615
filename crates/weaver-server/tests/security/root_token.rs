//! The token of the first start.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;

use weaver_core::clock::ManualClock;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_server::security::{
    NamespaceScope, ROOT_TOKEN_FILE, Role, RootTokenError, Tokens, read_root_token, root_token,
};

use crate::server::Scratch;

fn tokens() -> Tokens {
    let clock = Arc::new(ManualClock::default());
    Tokens::new(Arc::new(InMemoryQueue::new(clock.clone())), clock)
}

#[tokio::test]
async fn the_first_start_writes_an_admins_token_only_its_owner_can_read() {
    let (scratch, tokens) = (Scratch::new(), tokens());
    let directory = scratch.path().join("made/for/it");
    let text = root_token(&directory, &tokens).await.expect("a token");
    let file = fs::metadata(directory.join(ROOT_TOKEN_FILE)).expect("a file");
    assert_eq!(file.mode() & 0o7777, 0o600);
    assert_eq!(fs::metadata(&directory).expect("a directory").mode() & 0o7777, 0o700);
    let identity = tokens.verify(&text).await.expect("it is good");
    assert_eq!((identity.role, identity.namespaces), (Role::Admin, NamespaceScope::All));
    assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 1, "no draft is left behind");
}

#[tokio::test]
async fn later_starts_and_the_command_line_use_the_same_token() {
    let (scratch, tokens) = (Scratch::new(), tokens());
    let first = root_token(scratch.path(), &tokens).await.expect("a token");
    let second = root_token(scratch.path(), &tokens).await.expect("a token");
    let read = read_root_token(scratch.path()).expect("a file").expect("a token");
    assert_eq!([second.expose(), read.expose()], [first.expose(); 2]);
    assert_eq!(tokens.list(None, 10).await.expect("a list").items.len(), 1);
}

#[tokio::test]
async fn a_revoked_root_token_is_replaced_and_never_comes_back() {
    let (scratch, tokens) = (Scratch::new(), tokens());
    let first = root_token(scratch.path(), &tokens).await.expect("a token");
    tokens.revoke(&first.id()).await.expect("it is there");
    let second = root_token(scratch.path(), &tokens).await.expect("a token");
    assert!(tokens.verify(&first).await.is_err());
    assert!(tokens.verify(&second).await.is_ok());
    let mode = fs::metadata(scratch.path().join(ROOT_TOKEN_FILE)).expect("a file").mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[tokio::test]
async fn a_file_that_others_can_read_is_not_trusted() {
    for mode in [0o640, 0o604, 0o660, 0o620] {
        let (scratch, tokens) = (Scratch::new(), tokens());
        root_token(scratch.path(), &tokens).await.expect("a token");
        let path = scratch.path().join(ROOT_TOKEN_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let refusal = root_token(scratch.path(), &tokens).await.expect_err("exposed");
        assert!(matches!(refusal, RootTokenError::Exposed { .. }));
        assert!(refusal.to_string().contains("chmod 600"), "{refusal}");
    }
}

#[tokio::test]
async fn a_file_with_something_else_in_it_is_reported_without_its_contents() {
    for contents in ["secret-of-another-program\n", "", "wvr_0123456789abcdef_short", &"x".repeat(10_000)] {
        let scratch = Scratch::new();
        let path = scratch.path().join(ROOT_TOKEN_FILE);
        fs::write(&path, contents).expect("it is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let refusal = root_token(scratch.path(), &tokens()).await.expect_err("no token");
        assert!(matches!(refusal, RootTokenError::NotAToken { .. }));
        assert!(!format!("{refusal} {refusal:?}").contains("secret-of"), "{refusal}");
    }
}

#[tokio::test]
async fn a_planted_file_does_not_become_a_token() {
    let (scratch, tokens) = (Scratch::new(), tokens());
    let planted = format!("wvr_0123456789abcdef_{}\n", "1".repeat(64));
    let path = scratch.path().join(ROOT_TOKEN_FILE);
    fs::write(&path, &planted).expect("it is ours");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let text = root_token(scratch.path(), &tokens).await.expect("a token");
    assert_ne!(text.expose(), planted.trim_end());
    assert_eq!(tokens.list(None, 10).await.expect("a list").items.len(), 1);
}

#[test]
fn without_a_file_there_is_no_token() {
    assert!(read_root_token(Scratch::new().path()).expect("no error").is_none());
}
