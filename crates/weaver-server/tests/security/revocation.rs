//! A revocation during a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;
use weaver_core::clock::ManualClock;
use weaver_core::error::{Error, Result};
use weaver_core::id::Version;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Document, DocumentKey, DocumentWrite, Documents, Expect, Page};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::time::Timestamp;
use weaver_server::security::{NamespaceScope, Role, TokenText, Tokens, Unverified};

use crate::server::{Server, new_token};

/// A store whose next read is delayed, or whose responses are lost.
struct Faulty {
    inner: InMemoryQueue,
    holds: AtomicBool,
    loses: AtomicBool,
    was_read: Notify,
    go_on: Notify,
}

impl Faulty {
    fn new(clock: ManualClock) -> Arc<Self> {
        Arc::new(Self {
            inner: InMemoryQueue::new(Arc::new(clock)),
            holds: AtomicBool::new(false),
            loses: AtomicBool::new(false),
            was_read: Notify::new(),
            go_on: Notify::new(),
        })
    }

    fn answer<T>(&self, answer: T) -> Result<T> {
        if self.loses.load(Ordering::Relaxed) {
            return Err(Error::Unavailable { reason: "the line to db.internal is cut".to_owned() });
        }
        Ok(answer)
    }
}

#[async_trait]
impl Documents for Faulty {
    async fn get_document(&self, key: &DocumentKey) -> Result<Option<Document>> {
        let found = self.inner.get_document(key).await?;
        if self.holds.swap(false, Ordering::Relaxed) {
            self.was_read.notify_one();
            self.go_on.notified().await;
        }
        self.answer(found)
    }

    async fn put_document(
        &self,
        key: &DocumentKey,
        body: Bytes,
        expect: Expect,
        due: Option<Timestamp>,
    ) -> Result<Version> {
        self.inner.put_document(key, body, expect, due).await
    }

    async fn delete_document(&self, key: &DocumentKey, expect: Expect) -> Result<()> {
        self.inner.delete_document(key, expect).await?;
        self.loses.store(true, Ordering::Relaxed);
        self.answer(())
    }

    async fn write_documents(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Result<Option<Version>>>> {
        self.inner.write_documents(writes).await
    }

    async fn list_documents(
        &self,
        namespace: &Namespace,
        kind: &str,
        prefix: &str,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Document>> {
        self.inner.list_documents(namespace, kind, prefix, cursor, limit).await
    }

    async fn due_documents(&self, kind: &str, before: Timestamp, limit: u32) -> Result<Vec<Document>> {
        self.inner.due_documents(kind, before, limit).await
    }
}

async fn faulty_tokens() -> (Arc<Faulty>, Tokens, TokenText) {
    let clock = ManualClock::default();
    let store = Faulty::new(clock.clone());
    let tokens = Tokens::new(store.clone(), Arc::new(clock));
    let text = tokens.create(new_token(Role::Admin, NamespaceScope::All)).await.expect("a token").0;
    (store, tokens, text)
}

#[tokio::test]
async fn a_request_that_read_the_token_before_it_was_revoked_does_not_cache_it_again() {
    let (store, tokens, text) = faulty_tokens().await;
    store.holds.store(true, Ordering::Relaxed);
    let revoke = async {
        store.was_read.notified().await;
        assert!(tokens.revoke(&text.id()).await.is_err(), "its answer gets lost");
        store.loses.store(false, Ordering::Relaxed);
        store.go_on.notify_one();
    };
    let (verified, ()) = tokio::join!(tokens.verify(&text), revoke);
    assert!(verified.is_ok(), "it was good when the request came in");
    assert_eq!(tokens.verify(&text).await, Err(Unverified::Unknown));
}

#[tokio::test]
async fn a_revocation_whose_response_was_lost_is_effective() {
    let (store, tokens, text) = faulty_tokens().await;
    tokens.verify(&text).await.expect("it is good");
    assert!(tokens.revoke(&text.id()).await.is_err());
    store.loses.store(false, Ordering::Relaxed);
    assert_eq!(tokens.verify(&text).await, Err(Unverified::Unknown));
}

#[tokio::test]
async fn an_unavailable_store_authenticates_no_caller_and_its_error_is_not_shown() {
    let (store, tokens, text) = faulty_tokens().await;
    store.loses.store(true, Ordering::Relaxed);
    let server = Server::start_with(|options| options.tokens = Some(Arc::new(tokens))).await;
    for _ in 0..30 {
        let problem = server.get_as("/whoami", &text).await.refused(503, "store_unavailable");
        assert!(!problem.contains("db.internal"), "{problem}");
    }
    store.loses.store(false, Ordering::Relaxed);
    server.get_as("/whoami", &text).await.allowed();
}
