//! Streams: entries in order, with numbers that only grow.

use bytes::Bytes;
use weaver_core::error::Problem;
use weaver_core::name::Namespace;
use weaver_core::ports::{ENTRY_MAX_BYTES, JournalPage, ReadFrom, Seq, StreamKey, TrimBefore};

use super::answers::refusal;
use super::cases;
use crate::bed::{Bed, namespace, seconds};

cases![
    entries_are_read_in_the_order_they_were_appended,
    an_append_answers_the_number_of_its_last_entry,
    entries_are_stamped_with_the_stores_clock,
    a_stream_that_nobody_wrote_is_empty,
    reading_goes_on_after_an_entry,
    a_reader_is_told_whether_there_is_more,
    the_last_entries_come_oldest_first,
    a_stream_is_trimmed_by_number,
    a_stream_is_trimmed_by_time,
    numbers_go_on_after_everything_was_trimmed,
    an_entry_over_the_limit_is_refused_with_its_whole_append,
    an_entry_at_the_limit_is_kept,
    a_stream_belongs_to_its_namespace,
];

fn stream() -> StreamKey {
    StreamKey::new(Namespace::default(), "stream")
}

async fn append(bed: &Bed, stream: &StreamKey, texts: &[&str]) -> Seq {
    let bodies: Vec<_> = texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    bed.store.append_entries(stream, &bodies).await.expect("the entries are small")
}

async fn read(bed: &Bed, stream: &StreamKey, from: ReadFrom, limit: u32) -> JournalPage {
    bed.store.read_entries(stream, from, limit).await.expect("the store answers")
}

async fn read_all(bed: &Bed, stream: &StreamKey) -> JournalPage {
    read(bed, stream, ReadFrom::After(Seq(0)), 100).await
}

fn texts(page: &JournalPage) -> Vec<&str> {
    page.entries.iter().map(|entry| std::str::from_utf8(&entry.body).expect("text")).collect()
}

fn numbers(page: &JournalPage) -> Vec<u64> {
    page.entries.iter().map(|entry| entry.seq.0).collect()
}

async fn entries_are_read_in_the_order_they_were_appended(bed: Bed) {
    append(&bed, &stream(), &["a", "b"]).await;
    append(&bed, &stream(), &["c"]).await;
    let page = read_all(&bed, &stream()).await;
    assert_eq!(texts(&page), ["a", "b", "c"]);
    assert!(!page.more);
}

async fn an_append_answers_the_number_of_its_last_entry(bed: Bed) {
    assert_eq!(append(&bed, &stream(), &["a", "b"]).await, Seq(2));
    assert_eq!(append(&bed, &stream(), &["c"]).await, Seq(3));
    assert_eq!(numbers(&read_all(&bed, &stream()).await), [1, 2, 3]);
}

async fn entries_are_stamped_with_the_stores_clock(bed: Bed) {
    let first = bed.now().await;
    append(&bed, &stream(), &["a"]).await;
    bed.advance(seconds(5)).await;
    append(&bed, &stream(), &["b"]).await;
    let stamps: Vec<_> = read_all(&bed, &stream()).await.entries.iter().map(|entry| entry.at).collect();
    assert_eq!(stamps, [first, first.saturating_add(seconds(5))]);
}

async fn a_stream_that_nobody_wrote_is_empty(bed: Bed) {
    let empty = JournalPage { entries: Vec::new(), more: false };
    assert_eq!(read_all(&bed, &stream()).await, empty);
    assert_eq!(read(&bed, &stream(), ReadFrom::Last(5), 5).await, empty);
    bed.store.trim_entries(&stream(), TrimBefore::Seq(Seq(5))).await.expect("there is nothing to trim");
    assert_eq!(append(&bed, &stream(), &["a"]).await, Seq(1));
}

async fn reading_goes_on_after_an_entry(bed: Bed) {
    append(&bed, &stream(), &["a", "b", "c"]).await;
    assert_eq!(texts(&read(&bed, &stream(), ReadFrom::After(Seq(1)), 10).await), ["b", "c"]);
    let end = read(&bed, &stream(), ReadFrom::After(Seq(3)), 10).await;
    assert_eq!((texts(&end), end.more), (vec![], false));
    let beyond = read(&bed, &stream(), ReadFrom::After(Seq(99)), 10).await;
    assert_eq!((texts(&beyond), beyond.more), (vec![], false));
}

async fn a_reader_is_told_whether_there_is_more(bed: Bed) {
    append(&bed, &stream(), &["a", "b", "c"]).await;
    let part = read(&bed, &stream(), ReadFrom::After(Seq(0)), 2).await;
    assert_eq!((texts(&part), part.more), (vec!["a", "b"], true));
    let rest = read(&bed, &stream(), ReadFrom::After(Seq(1)), 2).await;
    assert_eq!((texts(&rest), rest.more), (vec!["b", "c"], false));
}

async fn the_last_entries_come_oldest_first(bed: Bed) {
    append(&bed, &stream(), &["a", "b", "c", "d"]).await;
    let last = read(&bed, &stream(), ReadFrom::Last(2), 10).await;
    assert_eq!((texts(&last), last.more), (vec!["c", "d"], false));
    assert_eq!(texts(&read(&bed, &stream(), ReadFrom::Last(99), 10).await), ["a", "b", "c", "d"]);
}

async fn a_stream_is_trimmed_by_number(bed: Bed) {
    append(&bed, &stream(), &["a", "b", "c"]).await;
    bed.store.trim_entries(&stream(), TrimBefore::Seq(Seq(3))).await.expect("the store answers");
    let left = read_all(&bed, &stream()).await;
    assert_eq!((texts(&left), numbers(&left)), (vec!["c"], vec![3]));
    bed.store.trim_entries(&stream(), TrimBefore::Seq(Seq(1))).await.expect("the store answers");
    assert_eq!(texts(&read_all(&bed, &stream()).await), ["c"]);
}

async fn a_stream_is_trimmed_by_time(bed: Bed) {
    append(&bed, &stream(), &["a"]).await;
    bed.advance(seconds(5)).await;
    let kept_from = bed.now().await;
    append(&bed, &stream(), &["b"]).await;
    bed.advance(seconds(5)).await;
    append(&bed, &stream(), &["c"]).await;
    bed.store.trim_entries(&stream(), TrimBefore::Time(kept_from)).await.expect("the store answers");
    assert_eq!(texts(&read_all(&bed, &stream()).await), ["b", "c"]);
}

async fn numbers_go_on_after_everything_was_trimmed(bed: Bed) {
    let last = append(&bed, &stream(), &["a", "b"]).await;
    bed.store.trim_entries(&stream(), TrimBefore::Seq(Seq(99))).await.expect("the store answers");
    assert_eq!(texts(&read_all(&bed, &stream()).await), Vec::<&str>::new());
    assert!(append(&bed, &stream(), &["c"]).await > last);
    assert_eq!(texts(&read(&bed, &stream(), ReadFrom::After(last), 10).await), ["c"]);
}

async fn an_entry_over_the_limit_is_refused_with_its_whole_append(bed: Bed) {
    let over = Bytes::from(vec![b'x'; ENTRY_MAX_BYTES + 1]);
    let bodies = [Bytes::from_static(b"small"), over];
    let refused = refusal(bed.store.append_entries(&stream(), &bodies).await);
    let problem = Problem::TooLong { bytes: ENTRY_MAX_BYTES + 1, max_bytes: ENTRY_MAX_BYTES };
    assert_eq!((refused.index, refused.problem), (Some(1), problem));
    assert_eq!(texts(&read_all(&bed, &stream()).await), Vec::<&str>::new());
}

async fn an_entry_at_the_limit_is_kept(bed: Bed) {
    let full = Bytes::from(vec![b'x'; ENTRY_MAX_BYTES]);
    bed.store.append_entries(&stream(), std::slice::from_ref(&full)).await.expect("it fits");
    assert_eq!(read_all(&bed, &stream()).await.entries[0].body, full);
}

async fn a_stream_belongs_to_its_namespace(bed: Bed) {
    let elsewhere = StreamKey::new(namespace("other"), "stream");
    append(&bed, &stream(), &["here"]).await;
    assert_eq!(texts(&read_all(&bed, &elsewhere).await), Vec::<&str>::new());
    append(&bed, &elsewhere, &["there"]).await;
    bed.store.trim_entries(&elsewhere, TrimBefore::Seq(Seq(99))).await.expect("the store answers");
    assert_eq!(texts(&read_all(&bed, &stream()).await), ["here"]);
}
