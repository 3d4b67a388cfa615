//! Documents: conditional writes (optimistic concurrency), growing versions, lists, and due times.

use bytes::Bytes;
use weaver_core::error::Problem;
use weaver_core::id::Version;
use weaver_core::name::Namespace;
use weaver_core::ports::{DOCUMENT_MAX_BYTES, Document, DocumentKey, Expect};
use weaver_core::time::Timestamp;

use super::answers::{conflict, items, pages, refusal};
use super::cases;
use weaver_testkit::harness::{Harness, namespace, seconds};

cases![
    a_document_is_read_as_it_was_written,
    a_document_that_was_never_written_is_absent,
    a_write_that_expects_absence_succeeds_once,
    a_write_that_expects_a_version_succeeds_only_on_that_version,
    an_unconditional_write_always_succeeds,
    a_conflict_changes_nothing,
    a_document_is_deleted_only_in_the_version_expected,
    deleting_an_absent_document_is_a_conflict_unless_unconditional,
    versions_grow_across_deletion,
    a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not,
    documents_are_listed_by_id_and_prefix,
    documents_are_listed_in_pages,
    due_documents_are_listed_most_overdue_first,
    a_document_without_a_due_time_is_never_due,
    due_documents_span_namespaces_and_one_kind,
    a_document_belongs_to_its_namespace_and_kind,
];

fn key(id: &str) -> DocumentKey {
    DocumentKey::new(Namespace::default(), "kind", id)
}

async fn put(harness: &Harness, key: &DocumentKey, body: &'static str, expect: Expect) -> Version {
    let body = Bytes::from_static(body.as_bytes());
    harness.store.put_document(key, body, expect, None).await.expect("the write is expected")
}

async fn put_due(harness: &Harness, key: &DocumentKey, due: Option<Timestamp>) {
    let answer = harness.store.put_document(key, Bytes::new(), Expect::Anything, due).await;
    answer.expect("the write is expected");
}

async fn get(harness: &Harness, key: &DocumentKey) -> Option<Document> {
    harness.store.get_document(key).await.expect("the store answers")
}

async fn a_document_is_read_as_it_was_written(harness: Harness) {
    let key = key("a");
    let body = Bytes::from_static(b"\x00any bytes\xff");
    let due = Some(harness.now().await.saturating_add(seconds(60)));
    let version =
        harness.store.put_document(&key, body.clone(), Expect::Absent, due).await.expect("it is new");
    let updated_at = harness.now().await;
    assert_eq!(get(&harness, &key).await, Some(Document { key, body, version, due, updated_at }));
}

async fn a_document_that_was_never_written_is_absent(harness: Harness) {
    assert_eq!(get(&harness, &key("a")).await, None);
}

async fn a_write_that_expects_absence_succeeds_once(harness: Harness) {
    let version = put(&harness, &key("a"), "1", Expect::Absent).await;
    let again = harness.store.put_document(&key("a"), Bytes::new(), Expect::Absent, None).await;
    assert_eq!(conflict(again), version);
}

async fn a_write_that_expects_a_version_succeeds_only_on_that_version(harness: Harness) {
    let missing = Expect::Version(Version(1));
    let answer = harness.store.put_document(&key("a"), Bytes::new(), missing, None).await;
    assert_eq!(conflict(answer), Version(0), "nothing is there");
    let first = put(&harness, &key("a"), "1", Expect::Absent).await;
    harness.advance(seconds(5)).await;
    let second = put(&harness, &key("a"), "2", Expect::Version(first)).await;
    assert!(second > first);
    let found = get(&harness, &key("a")).await.expect("it is there");
    assert_eq!((found.version, found.body.as_ref()), (second, b"2".as_slice()));
    assert_eq!(found.updated_at, harness.now().await);
    let late = harness.store.put_document(&key("a"), Bytes::new(), Expect::Version(first), None).await;
    assert_eq!(conflict(late), second);
}

async fn an_unconditional_write_always_succeeds(harness: Harness) {
    let first = put(&harness, &key("a"), "1", Expect::Anything).await;
    let second = put(&harness, &key("a"), "2", Expect::Anything).await;
    assert!(second > first);
}

async fn a_conflict_changes_nothing(harness: Harness) {
    let version = put(&harness, &key("a"), "1", Expect::Absent).await;
    let before = get(&harness, &key("a")).await;
    harness.advance(seconds(5)).await;
    let due = Some(harness.now().await);
    let wrong = Expect::Version(version.next());
    conflict(harness.store.put_document(&key("a"), Bytes::from_static(b"2"), wrong, due).await);
    conflict(harness.store.put_document(&key("a"), Bytes::from_static(b"2"), Expect::Absent, due).await);
    conflict(harness.store.delete_document(&key("a"), wrong).await);
    assert_eq!(get(&harness, &key("a")).await, before);
    let due = harness.store.due_documents("kind", Timestamp::MAX, 10).await.expect("the store answers");
    assert_eq!(due, []);
}

async fn a_document_is_deleted_only_in_the_version_expected(harness: Harness) {
    let first = put(&harness, &key("a"), "1", Expect::Absent).await;
    let second = put(&harness, &key("a"), "2", Expect::Version(first)).await;
    assert_eq!(conflict(harness.store.delete_document(&key("a"), Expect::Version(first)).await), second);
    harness.store.delete_document(&key("a"), Expect::Version(second)).await.expect("it is that version");
    assert_eq!(get(&harness, &key("a")).await, None);
}

async fn deleting_an_absent_document_is_a_conflict_unless_unconditional(harness: Harness) {
    let answer = harness.store.delete_document(&key("a"), Expect::Version(Version(1))).await;
    assert_eq!(conflict(answer), Version(0));
    harness.store.delete_document(&key("a"), Expect::Anything).await.expect("anything includes nothing");
}

async fn versions_grow_across_deletion(harness: Harness) {
    let before = put(&harness, &key("a"), "1", Expect::Absent).await;
    harness.store.delete_document(&key("a"), Expect::Anything).await.expect("the store answers");
    let stale = harness.store.put_document(&key("a"), Bytes::new(), Expect::Version(before), None).await;
    conflict(stale);
    let after = put(&harness, &key("a"), "2", Expect::Absent).await;
    assert!(after > before, "{after} would mean two bodies");
}

async fn a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not(harness: Harness) {
    let over = Bytes::from(vec![b'x'; DOCUMENT_MAX_BYTES + 1]);
    let refused = refusal(harness.store.put_document(&key("a"), over, Expect::Anything, None).await);
    let problem = Problem::TooLong { bytes: DOCUMENT_MAX_BYTES + 1, max_bytes: DOCUMENT_MAX_BYTES };
    assert_eq!((refused.field, refused.problem), ("body", problem));
    assert_eq!(get(&harness, &key("a")).await, None);
    let full = Bytes::from(vec![b'x'; DOCUMENT_MAX_BYTES]);
    let answer = harness.store.put_document(&key("a"), full.clone(), Expect::Anything, None).await;
    answer.expect("it fits");
    assert_eq!(get(&harness, &key("a")).await.map(|document| document.body), Some(full));
}

async fn listed(harness: &Harness, prefix: &str) -> Vec<String> {
    let space = Namespace::default();
    let page =
        harness.store.list_documents(&space, "kind", prefix, None, 100).await.expect("the store answers");
    page.items.into_iter().map(|document| document.key.id).collect()
}

async fn documents_are_listed_by_id_and_prefix(harness: Harness) {
    for id in ["b", "ab", "a", "aé", "a/b", "aa", "A"] {
        put(&harness, &key(id), "", Expect::Absent).await;
    }
    put(&harness, &DocumentKey::new(Namespace::default(), "other kind", "ac"), "", Expect::Absent).await;
    assert_eq!(listed(&harness, "").await, ["A", "a", "a/b", "aa", "ab", "aé", "b"]);
    assert_eq!(listed(&harness, "a").await, ["a", "a/b", "aa", "ab", "aé"]);
    assert_eq!(listed(&harness, "ab").await, ["ab"]);
    assert_eq!(listed(&harness, "x").await, Vec::<String>::new());
    harness.store.delete_document(&key("ab"), Expect::Anything).await.expect("the store answers");
    assert_eq!(listed(&harness, "ab").await, Vec::<String>::new());
}

async fn documents_are_listed_in_pages(harness: Harness) {
    let space = Namespace::default();
    for number in 0..11 {
        put(&harness, &key(&format!("id-{:02}", (number * 7) % 11)), "", Expect::Absent).await;
    }
    put(&harness, &key("after"), "", Expect::Absent).await;
    let pages = pages(|cursor| harness.store.list_documents(&space, "kind", "id-", cursor, 4)).await;
    let seen: Vec<_> = items(pages, 4).into_iter().map(|document| document.key.id).collect();
    assert_eq!(seen, (0..11).map(|number| format!("id-{number:02}")).collect::<Vec<_>>());
}

async fn due(harness: &Harness, kind: &str, before: Timestamp, limit: u32) -> Vec<String> {
    let documents = harness.store.due_documents(kind, before, limit).await.expect("the store answers");
    documents.into_iter().map(|document| document.key.id).collect()
}

async fn due_documents_are_listed_most_overdue_first(harness: Harness) {
    let now = harness.now().await;
    let at = |count| Some(now.saturating_add(seconds(count)));
    for (id, after) in [("c", 30), ("a", 10), ("d", 40), ("b", 20)] {
        put_due(&harness, &key(id), at(after)).await;
    }
    let before = now.saturating_add(seconds(30));
    assert_eq!(due(&harness, "kind", before, 10).await, ["a", "b", "c"], "at or before");
    assert_eq!(due(&harness, "kind", before, 2).await, ["a", "b"]);
    put_due(&harness, &key("a"), at(35)).await;
    assert_eq!(due(&harness, "kind", before, 10).await, ["b", "c"], "it was put off");
    harness.store.delete_document(&key("b"), Expect::Anything).await.expect("the store answers");
    assert_eq!(due(&harness, "kind", before, 10).await, ["c"], "it was deleted");
}

async fn a_document_without_a_due_time_is_never_due(harness: Harness) {
    put_due(&harness, &key("a"), Some(harness.now().await)).await;
    put_due(&harness, &key("a"), None).await;
    assert_eq!(due(&harness, "kind", Timestamp::MAX, 10).await, Vec::<String>::new());
}

async fn due_documents_span_namespaces_and_one_kind(harness: Harness) {
    let now = harness.now().await;
    put_due(&harness, &DocumentKey::new(namespace("one"), "kind", "a"), Some(now)).await;
    let earlier = Some(now.saturating_sub(seconds(1)));
    put_due(&harness, &DocumentKey::new(namespace("two"), "kind", "b"), earlier).await;
    put_due(&harness, &DocumentKey::new(namespace("two"), "other kind", "c"), Some(now)).await;
    assert_eq!(due(&harness, "kind", now, 10).await, ["b", "a"]);
    assert_eq!(due(&harness, "other kind", now, 10).await, ["c"]);
}

async fn a_document_belongs_to_its_namespace_and_kind(harness: Harness) {
    put(&harness, &key("a"), "1", Expect::Absent).await;
    let elsewhere = DocumentKey::new(namespace("other"), "kind", "a");
    let otherwise = DocumentKey::new(Namespace::default(), "other kind", "a");
    assert_eq!(get(&harness, &elsewhere).await, None);
    assert_eq!(get(&harness, &otherwise).await, None);
    put(&harness, &elsewhere, "2", Expect::Absent).await;
    harness.store.delete_document(&otherwise, Expect::Anything).await.expect("the store answers");
    assert_eq!(get(&harness, &key("a")).await.expect("it is there").body.as_ref(), b"1");
    assert_eq!(listed(&harness, "").await, ["a"]);
}
