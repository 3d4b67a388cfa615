//! Enqueues with their audit entries.

use weaver_core::error::Problem;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::ports::{ENTRY_MAX_BYTES, Entry, ReadFrom, Seq, StreamKey};
use weaver_core::queue::EnqueueAudit;
use weaver_core::task::NewTask;

use super::answers::refusal;
use super::cases;
use weaver_testkit::harness::{Harness, namespace, task};

cases![
    an_audited_enqueue_has_an_entry_with_the_number_of_its_tasks_and_the_ends_of_their_ids,
    a_batch_of_many_namespaces_has_an_entry_in_each,
    tasks_that_existed_before_are_in_no_entry,
    an_invalid_member_leaves_neither_tasks_nor_an_entry,
    an_entry_over_the_limit_refuses_the_tasks,
    entries_of_enqueues_and_appended_ones_are_numbered_in_the_order_of_the_calls,
    entries_of_enqueues_are_stamped_with_the_stores_clock,
];

fn audit(who: &str) -> EnqueueAudit {
    EnqueueAudit { before: format!("{who}\n["), after: "]'\"\\{}".to_owned() }
}

async fn enqueue(harness: &Harness, tasks: Vec<NewTask>, who: &str) -> Vec<TaskKey> {
    let stored = harness.store.enqueue_audited(tasks, audit(who)).await.expect("the store answers");
    stored.into_iter().map(|stored| stored.expect("it is stored").key).collect()
}

async fn entries(harness: &Harness, of: &str) -> Vec<Entry> {
    let stream = StreamKey::audit(namespace(of));
    harness.store.read_entries(&stream, ReadFrom::After(Seq(0)), 100).await.expect("it answers").entries
}

async fn texts(harness: &Harness, of: &str) -> Vec<String> {
    let text = |entry: Entry| String::from_utf8(entry.body.to_vec()).expect("text");
    entries(harness, of).await.into_iter().map(text).collect()
}

fn body(who: &str, count: usize, lowest: TaskId, highest: TaskId) -> String {
    format!("{who}\n[{count},{},{}]'\"\\{{}}", lowest.0, highest.0)
}

async fn an_audited_enqueue_has_an_entry_with_the_number_of_its_tasks_and_the_ends_of_their_ids(
    harness: Harness,
) {
    let one = enqueue(&harness, vec![task()], "ada").await;
    let same = enqueue(&harness, vec![task(); 12], "bob").await;
    let others = enqueue(&harness, vec![task(), task().queue("mail").label("a", "b")], "cyd").await;
    let ends = |keys: &[TaskKey]| (keys[0].id, keys[keys.len() - 1].id);
    let ((of_one, _), (first, last), (low, high)) = (ends(&one), ends(&same), ends(&others));
    let expected = [body("ada", 1, of_one, of_one), body("bob", 12, first, last), body("cyd", 2, low, high)];
    assert_eq!(texts(&harness, "default").await, expected);
}

async fn a_batch_of_many_namespaces_has_an_entry_in_each(harness: Harness) {
    let batch = ["a", "b", "a", "b", "a"].map(|name| task().namespace(name)).to_vec();
    let keys = enqueue(&harness, batch, "ada").await;
    assert_eq!(texts(&harness, "a").await, [body("ada", 3, keys[0].id, keys[4].id)]);
    assert_eq!(texts(&harness, "b").await, [body("ada", 2, keys[1].id, keys[3].id)]);
    assert!(texts(&harness, "default").await.is_empty());
}

async fn tasks_that_existed_before_are_in_no_entry(harness: Harness) {
    let keyed = || task().idempotency_key("order 7");
    let first = enqueue(&harness, vec![keyed()], "ada").await;
    let again = enqueue(&harness, vec![keyed()], "bob").await;
    let mixed = enqueue(&harness, vec![keyed(), task(), keyed()], "cyd").await;
    assert_eq!((&first, &first[0]), (&again, &mixed[2]));
    let (old, new) = (first[0].id, mixed[1].id);
    assert_eq!(texts(&harness, "default").await, [body("ada", 1, old, old), body("cyd", 1, new, new)]);
}

async fn an_invalid_member_leaves_neither_tasks_nor_an_entry(harness: Harness) {
    let refused =
        refusal(harness.store.enqueue_audited(vec![task(), task().priority(10)], audit("ada")).await);
    assert_eq!((refused.index, refused.field), (Some(1), "priority"));
    assert_eq!((harness.total("default").await, texts(&harness, "default").await.len()), (0, 0));
    let none = harness.store.enqueue_audited(vec![], audit("ada")).await.expect("nothing is wrong with it");
    assert!(none.is_empty() && texts(&harness, "default").await.is_empty());
}

async fn an_entry_over_the_limit_refuses_the_tasks(harness: Harness) {
    let audit = EnqueueAudit { before: "x".repeat(ENTRY_MAX_BYTES), after: String::new() };
    let refused = refusal(harness.store.enqueue_audited(vec![task()], audit).await);
    assert!(matches!(refused.problem, Problem::TooLong { max_bytes: ENTRY_MAX_BYTES, .. }), "{refused}");
    assert_eq!((harness.total("default").await, texts(&harness, "default").await.len()), (0, 0));
}

async fn entries_of_enqueues_and_appended_ones_are_numbered_in_the_order_of_the_calls(harness: Harness) {
    let stream = StreamKey::audit(namespace("default"));
    let append = |text: &'static str| async {
        let bodies = [bytes::Bytes::from_static(text.as_bytes())];
        harness.store.append_entries(&stream, &bodies).await.expect("the store answers")
    };
    let first = enqueue(&harness, vec![task()], "ada").await[0].id;
    assert_eq!(append("b").await, Seq(2));
    let last = enqueue(&harness, vec![task()], "cyd").await[0].id;
    assert_eq!(append("d").await, Seq(4));
    let expected = [body("ada", 1, first, first), "b".into(), body("cyd", 1, last, last), "d".into()];
    assert_eq!(texts(&harness, "default").await, expected);
    let numbers: Vec<_> = entries(&harness, "default").await.iter().map(|entry| entry.seq).collect();
    assert_eq!(numbers, [Seq(1), Seq(2), Seq(3), Seq(4)]);
}

async fn entries_of_enqueues_are_stamped_with_the_stores_clock(harness: Harness) {
    let first = harness.now().await;
    enqueue(&harness, vec![task()], "ada").await;
    harness.advance(weaver_testkit::harness::seconds(5)).await;
    let stamps: Vec<_> = entries(&harness, "default").await.iter().map(|entry| entry.at).collect();
    assert_eq!(stamps, [first]);
}
