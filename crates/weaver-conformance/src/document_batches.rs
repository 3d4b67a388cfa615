//! Batches of document writes: members are independent.

use bytes::Bytes;
use weaver_core::error::{Problem, Result};
use weaver_core::id::Version;
use weaver_core::name::Namespace;
use weaver_core::ports::{DOCUMENT_MAX_BYTES, DOCUMENT_WRITES_MAX, DocumentKey, DocumentWrite, Expect};
use weaver_core::time::Timestamp;

use super::answers::{conflict, refusal};
use super::cases;
use weaver_testkit::harness::{Harness, namespace, seconds};

cases![
    a_batch_writes_and_removes_each_document_independently,
    a_conflict_in_a_batch_affects_only_that_member,
    a_batch_with_an_invalid_member_writes_nothing_and_names_it,
    a_key_is_in_a_batch_once,
    an_empty_batch_of_documents_does_nothing,
    a_batch_sets_and_clears_due_times,
    of_many_batches_at_once_each_document_is_written_by_one,
];

fn key(id: &str) -> DocumentKey {
    DocumentKey::new(Namespace::default(), "kind", id)
}

fn put(key: &DocumentKey, body: &str, expect: Expect) -> DocumentWrite {
    DocumentWrite::put(key.clone(), Bytes::from(body.to_owned()), expect, None)
}

async fn write(harness: &Harness, writes: Vec<DocumentWrite>) -> Vec<Result<Option<Version>>> {
    let count = writes.len();
    let answers = harness.store.write_documents(writes).await.expect("the batch is valid");
    assert_eq!(answers.len(), count, "an answer for each");
    answers
}

async fn written(harness: &Harness, write: DocumentWrite) -> Version {
    let mut answers = self::write(harness, vec![write]).await;
    answers.remove(0).expect("it is expected").expect("it is written")
}

async fn body(harness: &Harness, key: &DocumentKey) -> Option<Bytes> {
    harness.store.get_document(key).await.expect("the store answers").map(|document| document.body)
}

async fn a_batch_writes_and_removes_each_document_independently(harness: Harness) {
    let elsewhere = DocumentKey::new(namespace("other"), "event", "a");
    let old = written(&harness, put(&key("old"), "1", Expect::Absent)).await;
    let answers = write(
        &harness,
        vec![
            put(&key("b"), "b", Expect::Absent),
            DocumentWrite::delete(key("old"), Expect::Version(old)),
            put(&elsewhere, "a", Expect::Anything),
            DocumentWrite::delete(key("never"), Expect::Anything),
        ],
    )
    .await;
    assert_eq!((&answers[1], &answers[3]), (&Ok(None), &Ok(None)), "removed");
    let versions = [&answers[0], &answers[2]].map(|answer| answer.clone().expect("as expected"));
    for (key, version, text) in [(&key("b"), versions[0], "b"), (&elsewhere, versions[1], "a")] {
        let found = harness.store.get_document(key).await.expect("the store answers").expect("it is there");
        assert_eq!((Some(found.version), found.body), (version, Bytes::from_static(text.as_bytes())));
        assert_eq!(found.updated_at, harness.now().await);
    }
    assert_eq!(body(&harness, &key("old")).await, None);
}

async fn a_conflict_in_a_batch_affects_only_that_member(harness: Harness) {
    let version = written(&harness, put(&key("a"), "1", Expect::Absent)).await;
    let mut answers = write(
        &harness,
        vec![
            put(&key("z"), "z", Expect::Absent),
            put(&key("a"), "2", Expect::Absent),
            DocumentWrite::delete(key("b"), Expect::Version(Version(7))),
            put(&key("c"), "c", Expect::Absent),
        ],
    )
    .await;
    assert!(answers[0].is_ok() && answers[3].is_ok(), "{answers:?}");
    assert_eq!(conflict(answers.remove(1)), version);
    assert_eq!(conflict(answers.remove(1)), Version(0));
    assert_eq!(body(&harness, &key("a")).await.as_deref(), Some(b"1".as_slice()));
    assert_eq!(body(&harness, &key("c")).await.as_deref(), Some(b"c".as_slice()));
}

async fn a_batch_with_an_invalid_member_writes_nothing_and_names_it(harness: Harness) {
    let over = "x".repeat(DOCUMENT_MAX_BYTES + 1);
    let writes = vec![put(&key("a"), "1", Expect::Absent), put(&key("b"), &over, Expect::Absent)];
    let refused = refusal(harness.store.write_documents(writes).await);
    assert_eq!((refused.index, refused.field), (Some(1), "body"));
    let many = (0..=DOCUMENT_WRITES_MAX).map(|number| put(&key(&number.to_string()), "", Expect::Absent));
    let refused = refusal(harness.store.write_documents(many.collect()).await);
    let problem = Problem::OutOfRange {
        value: DOCUMENT_WRITES_MAX as u64 + 1,
        min: 0,
        max: DOCUMENT_WRITES_MAX as u64,
    };
    assert_eq!((refused.index, refused.problem), (None, problem));
    assert_eq!(body(&harness, &key("a")).await, None);
}

async fn a_key_is_in_a_batch_once(harness: Harness) {
    let writes = vec![put(&key("a"), "1", Expect::Absent), put(&key("a"), "2", Expect::Anything)];
    let refused = refusal(harness.store.write_documents(writes).await);
    assert_eq!((refused.index, refused.problem), (Some(1), Problem::Repeated));
    assert_eq!(body(&harness, &key("a")).await, None);
}

async fn an_empty_batch_of_documents_does_nothing(harness: Harness) {
    assert_eq!(write(&harness, Vec::new()).await, []);
}

async fn a_batch_sets_and_clears_due_times(harness: Harness) {
    let now = harness.now().await;
    let due_in = |id: &str, after| DocumentWrite {
        due: Some(now.saturating_add(seconds(after))),
        ..put(&key(id), "", Expect::Anything)
    };
    write(&harness, vec![due_in("late", 20), due_in("early", 10), due_in("gone", 1), due_in("never", 2)])
        .await;
    let moved = vec![
        due_in("late", 5),
        DocumentWrite::delete(key("gone"), Expect::Anything),
        put(&key("never"), "", Expect::Anything),
    ];
    write(&harness, moved).await;
    let due = harness.store.due_documents("kind", Timestamp::MAX, 10).await.expect("the store answers");
    let ids: Vec<_> = due.iter().map(|document| document.key.id.as_str()).collect();
    assert_eq!(ids, ["late", "early"]);
}

async fn of_many_batches_at_once_each_document_is_written_by_one(harness: Harness) {
    let ids: Vec<String> = (0..20).map(|number| format!("id-{number:02}")).collect();
    let batch = |writer: usize| {
        let mut writes: Vec<_> =
            ids.iter().map(|id| put(&key(id), &writer.to_string(), Expect::Absent)).collect();
        // In different orders: batches that lock their documents must not deadlock.
        writes.rotate_left(writer * 5);
        if writer % 2 == 1 {
            writes.reverse();
        }
        writes
    };
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, writes) = (harness.store.clone(), batch(writer));
            harness.spawn(async move { store.write_documents(writes).await })
        })
        .collect();
    let mut won = 0;
    for writer in writers {
        let answers = writer.await.expect("it does not panic").expect("the batch is valid");
        won += answers.iter().filter(|answer| answer.is_ok()).count();
    }
    assert_eq!(won, ids.len(), "one writer each");
}
