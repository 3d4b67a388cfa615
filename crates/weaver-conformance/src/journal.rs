//! Streams: entries in order, with numbers that only grow.

use bytes::Bytes;
use weaver_core::error::Problem;
use weaver_core::name::Namespace;
use weaver_core::ports::{ENTRY_MAX_BYTES, JournalPage, ReadFrom, Seq, StreamKey, TrimBefore};

use super::answers::refusal;
use super::cases;
use weaver_testkit::harness::{Harness, namespace, seconds};

cases![
    entries_are_read_in_the_order_they_were_appended,
    an_append_returns_the_number_of_its_last_entry,
    entries_are_stamped_with_the_stores_clock,
    a_stream_that_was_never_written_is_empty,
    reading_continues_after_an_entry,
    a_page_of_entries_says_whether_there_is_more,
    the_last_entries_come_oldest_first,
    a_stream_is_trimmed_by_number,
    a_stream_is_trimmed_by_time,
    entry_numbers_continue_after_everything_was_trimmed,
    an_entry_over_the_limit_is_refused_with_its_whole_append,
    an_entry_at_the_limit_is_kept,
    a_stream_belongs_to_its_namespace,
];

fn stream() -> StreamKey {
    StreamKey::new(Namespace::default(), "stream")
}

async fn append(harness: &Harness, stream: &StreamKey, texts: &[&str]) -> Seq {
    let bodies: Vec<_> = texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    harness.store.append_entries(stream, &bodies).await.expect("the entries are small")
}

async fn read(harness: &Harness, stream: &StreamKey, from: ReadFrom, limit: u32) -> JournalPage {
    harness.store.read_entries(stream, from, limit).await.expect("the store answers")
}

async fn read_all(harness: &Harness, stream: &StreamKey) -> JournalPage {
    read(harness, stream, ReadFrom::After(Seq(0)), 100).await
}

fn texts(page: &JournalPage) -> Vec<&str> {
    page.entries.iter().map(|entry| std::str::from_utf8(&entry.body).expect("text")).collect()
}

fn numbers(page: &JournalPage) -> Vec<u64> {
    page.entries.iter().map(|entry| entry.seq.0).collect()
}

async fn entries_are_read_in_the_order_they_were_appended(harness: Harness) {
    append(&harness, &stream(), &["a", "b"]).await;
    append(&harness, &stream(), &["c"]).await;
    let page = read_all(&harness, &stream()).await;
    assert_eq!(texts(&page), ["a", "b", "c"]);
    assert!(!page.more);
}

async fn an_append_returns_the_number_of_its_last_entry(harness: Harness) {
    assert_eq!(append(&harness, &stream(), &["a", "b"]).await, Seq(2));
    assert_eq!(append(&harness, &stream(), &["c"]).await, Seq(3));
    assert_eq!(numbers(&read_all(&harness, &stream()).await), [1, 2, 3]);
}

async fn entries_are_stamped_with_the_stores_clock(harness: Harness) {
    let first = harness.now().await;
    append(&harness, &stream(), &["a"]).await;
    harness.advance(seconds(5)).await;
    append(&harness, &stream(), &["b"]).await;
    let stamps: Vec<_> = read_all(&harness, &stream()).await.entries.iter().map(|entry| entry.at).collect();
    assert_eq!(stamps, [first, first.saturating_add(seconds(5))]);
}

async fn a_stream_that_was_never_written_is_empty(harness: Harness) {
    let empty = JournalPage { entries: Vec::new(), more: false };
    assert_eq!(read_all(&harness, &stream()).await, empty);
    assert_eq!(read(&harness, &stream(), ReadFrom::Last(5), 5).await, empty);
    harness.store.trim_entries(&stream(), TrimBefore::Seq(Seq(5))).await.expect("there is nothing to trim");
    assert_eq!(append(&harness, &stream(), &["a"]).await, Seq(1));
}

async fn reading_continues_after_an_entry(harness: Harness) {
    append(&harness, &stream(), &["a", "b", "c"]).await;
    assert_eq!(texts(&read(&harness, &stream(), ReadFrom::After(Seq(1)), 10).await), ["b", "c"]);
    let end = read(&harness, &stream(), ReadFrom::After(Seq(3)), 10).await;
    assert_eq!((texts(&end), end.more), (vec![], false));
    let beyond = read(&harness, &stream(), ReadFrom::After(Seq(99)), 10).await;
    assert_eq!((texts(&beyond), beyond.more), (vec![], false));
}

async fn a_page_of_entries_says_whether_there_is_more(harness: Harness) {
    append(&harness, &stream(), &["a", "b", "c"]).await;
    let part = read(&harness, &stream(), ReadFrom::After(Seq(0)), 2).await;
    assert_eq!((texts(&part), part.more), (vec!["a", "b"], true));
    let rest = read(&harness, &stream(), ReadFrom::After(Seq(1)), 2).await;
    assert_eq!((texts(&rest), rest.more), (vec!["b", "c"], false));
}

async fn the_last_entries_come_oldest_first(harness: Harness) {
    append(&harness, &stream(), &["a", "b", "c", "d"]).await;
    let last = read(&harness, &stream(), ReadFrom::Last(2), 10).await;
    assert_eq!((texts(&last), last.more), (vec!["c", "d"], false));
    assert_eq!(texts(&read(&harness, &stream(), ReadFrom::Last(99), 10).await), ["a", "b", "c", "d"]);
}

async fn a_stream_is_trimmed_by_number(harness: Harness) {
    append(&harness, &stream(), &["a", "b", "c"]).await;
    harness.store.trim_entries(&stream(), TrimBefore::Seq(Seq(3))).await.expect("the store answers");
    let left = read_all(&harness, &stream()).await;
    assert_eq!((texts(&left), numbers(&left)), (vec!["c"], vec![3]));
    harness.store.trim_entries(&stream(), TrimBefore::Seq(Seq(1))).await.expect("the store answers");
    assert_eq!(texts(&read_all(&harness, &stream()).await), ["c"]);
}

async fn a_stream_is_trimmed_by_time(harness: Harness) {
    append(&harness, &stream(), &["a"]).await;
    harness.advance(seconds(5)).await;
    let kept_from = harness.now().await;
    append(&harness, &stream(), &["b"]).await;
    harness.advance(seconds(5)).await;
    append(&harness, &stream(), &["c"]).await;
    harness.store.trim_entries(&stream(), TrimBefore::Time(kept_from)).await.expect("the store answers");
    assert_eq!(texts(&read_all(&harness, &stream()).await), ["b", "c"]);
}

async fn entry_numbers_continue_after_everything_was_trimmed(harness: Harness) {
    let last = append(&harness, &stream(), &["a", "b"]).await;
    harness.store.trim_entries(&stream(), TrimBefore::Seq(Seq(99))).await.expect("the store answers");
    assert_eq!(texts(&read_all(&harness, &stream()).await), Vec::<&str>::new());
    assert!(append(&harness, &stream(), &["c"]).await > last);
    assert_eq!(texts(&read(&harness, &stream(), ReadFrom::After(last), 10).await), ["c"]);
}

async fn an_entry_over_the_limit_is_refused_with_its_whole_append(harness: Harness) {
    let over = Bytes::from(vec![b'x'; ENTRY_MAX_BYTES + 1]);
    let bodies = [Bytes::from_static(b"small"), over];
    let refused = refusal(harness.store.append_entries(&stream(), &bodies).await);
    let problem = Problem::TooLong { bytes: ENTRY_MAX_BYTES + 1, max_bytes: ENTRY_MAX_BYTES };
    assert_eq!((refused.index, refused.problem), (Some(1), problem));
    assert_eq!(texts(&read_all(&harness, &stream()).await), Vec::<&str>::new());
}

async fn an_entry_at_the_limit_is_kept(harness: Harness) {
    let full = Bytes::from(vec![b'x'; ENTRY_MAX_BYTES]);
    harness.store.append_entries(&stream(), std::slice::from_ref(&full)).await.expect("it fits");
    assert_eq!(read_all(&harness, &stream()).await.entries[0].body, full);
}

async fn a_stream_belongs_to_its_namespace(harness: Harness) {
    let elsewhere = StreamKey::new(namespace("other"), "stream");
    append(&harness, &stream(), &["here"]).await;
    assert_eq!(texts(&read_all(&harness, &elsewhere).await), Vec::<&str>::new());
    append(&harness, &elsewhere, &["there"]).await;
    harness.store.trim_entries(&elsewhere, TrimBefore::Seq(Seq(99))).await.expect("the store answers");
    assert_eq!(texts(&read_all(&harness, &stream()).await), ["here"]);
}
