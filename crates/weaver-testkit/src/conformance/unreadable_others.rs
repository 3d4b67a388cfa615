//! The same for what is not a task: a queue setting, a worker's heartbeat, a document that cannot be read.

use bytes::Bytes;
use weaver_core::explain::Reason;
use weaver_core::name::Namespace;
use weaver_core::ports::{Directive, DocumentKey, Expect, QueueSettings, RunnerKey};
use weaver_core::quarantine::RecordKind;
use weaver_core::queue::QueueExt;

use super::cases;
use super::explain::beat;
use super::unreadable::{quarantined, spoiled};
use crate::bed::{Bed, Spoil, Spoiled, namespace, queue, seconds, task, worker};

cases![
    a_queue_with_undecodable_settings_counts_as_paused_and_can_be_set_again,
    a_queue_with_settings_of_an_unknown_format_counts_as_paused,
    a_worker_with_an_undecodable_heartbeat_is_absent_until_it_beats,
    a_worker_with_a_heartbeat_of_an_unknown_format_is_absent,
    an_undecodable_document_is_left_out_and_can_be_written_again,
    a_document_of_an_unknown_format_is_left_out,
];

async fn settings(bed: Bed, how: Spoil) {
    let (here, elsewhere) = (Namespace::default(), namespace("elsewhere"));
    let (broken, fine) = (queue("broken"), queue("default"));
    let limit = QueueSettings { paused: false, max_running: Some(5) };
    for name in [&broken, &fine] {
        bed.store.put_queue(&here, name, limit, Expect::Anything).await.expect("it can be set");
    }
    bed.store.put_queue(&elsewhere, &broken, limit, Expect::Anything).await.expect("it can be set");
    let waiting = bed.enqueue(task().queue("broken")).await;
    let free = bed.enqueue(task()).await;
    let record = Spoiled::QueueSettings(here.clone(), broken.clone());
    let Some(bed) = spoiled(bed, record, how).await else { return };
    let mut request = bed.request(5);
    request.queues = vec![broken.clone(), fine.clone()];
    let leased = bed.lease_as(request).await;
    assert_eq!(leased.iter().map(|each| &each.lease.key).collect::<Vec<_>>(), [&free]);
    let queues = bed.store.list_queues(&here).await.expect("the others can be read");
    let shown: Vec<_> = queues.iter().map(|each| (each.name.as_str(), each.settings.paused)).collect();
    assert_eq!(shown, [("broken", true), ("default", false)]);
    let found = quarantined(&bed).await;
    assert_eq!(found.iter().map(|each| each.kind).collect::<Vec<_>>(), [RecordKind::QueueSettings]);
    assert_eq!((&found[0].namespace, found[0].queue.as_ref()), (&here, Some(&broken)));
    let reasons = bed.store.explain(&waiting).await.expect("it is there").reasons;
    assert!(reasons.contains(&Reason::SettingsUnreadable { queue: broken.clone() }), "{reasons:?}");
    bed.store.put_queue(&here, &broken, limit, Expect::Anything).await.expect("it can be written again");
    let mut request = bed.request(5);
    request.queues = vec![broken.clone()];
    assert_eq!(bed.lease_as(request).await.len(), 1);
    bed.store.list_queues(&here).await.expect("all can be read");
    assert_eq!(quarantined(&bed).await, []);
}

async fn a_queue_with_undecodable_settings_counts_as_paused_and_can_be_set_again(bed: Bed) {
    settings(bed, Spoil::Undecodable).await;
}

async fn a_queue_with_settings_of_an_unknown_format_counts_as_paused(bed: Bed) {
    settings(bed, Spoil::UnknownFormat).await;
}

async fn runner(bed: Bed, how: Spoil) {
    let here = Namespace::default();
    bed.store.beat(vec![beat("a"), beat("b"), beat("c")]).await.expect("the store answers");
    let key = RunnerKey { namespace: here.clone(), runner_id: worker("b") };
    let Some(bed) = spoiled(bed, Spoiled::Runner(key.clone()), how).await else { return };
    let names = async |bed: &Bed| {
        let page = bed.store.list_runners(&here, None, 100).await.expect("the others can be read");
        page.items.iter().map(|each| each.beat.key.runner_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&bed).await, ["a", "c"]);
    let found = quarantined(&bed).await;
    assert_eq!(
        found.iter().map(|each| (each.kind, each.id.as_str())).collect::<Vec<_>>(),
        [(RecordKind::Runner, "b")]
    );
    bed.store.direct(&key, Directive::Drain).await.expect("it can be told");
    let told = bed.store.beat(vec![beat("a"), beat("b")]).await.expect("the store answers");
    assert_eq!(told[0], Directive::Run);
    assert_eq!(names(&bed).await, ["a", "b", "c"]);
    bed.advance(seconds(61)).await;
    bed.maintain().await;
    assert_eq!(quarantined(&bed).await, []);
}

async fn a_worker_with_an_undecodable_heartbeat_is_absent_until_it_beats(bed: Bed) {
    runner(bed, Spoil::Undecodable).await;
}

async fn a_worker_with_a_heartbeat_of_an_unknown_format_is_absent(bed: Bed) {
    runner(bed, Spoil::UnknownFormat).await;
}

async fn document(bed: Bed, how: Spoil) {
    let here = Namespace::default();
    let key = |id: &str| DocumentKey::new(here.clone(), "note", id);
    let due = bed.now().await;
    for id in ["a", "b", "c"] {
        let (key, body) = (key(id), Bytes::from_static(b"{}"));
        let put = bed.store.put_document(&key, body, Expect::Absent, Some(due));
        put.await.expect("it can be written");
    }
    let Some(bed) = spoiled(bed, Spoiled::Document(key("b")), how).await else { return };
    let ids = async |bed: &Bed| {
        let page = bed.store.list_documents(&here, "note", "", None, 100).await.expect("a list");
        page.items.into_iter().map(|each| each.key.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&bed).await, ["a", "c"]);
    let due = bed.store.due_documents("note", due, 100).await.expect("what is due");
    assert_eq!(due.into_iter().map(|each| each.key.id).collect::<Vec<_>>(), ["a", "c"]);
    let found = quarantined(&bed).await;
    assert_eq!(
        found.iter().map(|each| (each.kind, each.id.as_str())).collect::<Vec<_>>(),
        [(RecordKind::Document, "note/b")]
    );
    assert!(bed.store.get_document(&key("b")).await.is_err(), "asked for by itself, it says so");
    let (victim, body) = (key("b"), Bytes::from_static(b"[]"));
    let put = bed.store.put_document(&victim, body, Expect::Anything, None);
    put.await.expect("it can be written again");
    assert_eq!(ids(&bed).await, ["a", "b", "c"]);
    bed.advance(seconds(61)).await;
    bed.maintain().await;
    assert_eq!(quarantined(&bed).await, []);
}

async fn an_undecodable_document_is_left_out_and_can_be_written_again(bed: Bed) {
    document(bed, Spoil::Undecodable).await;
}

async fn a_document_of_an_unknown_format_is_left_out(bed: Bed) {
    document(bed, Spoil::UnknownFormat).await;
}
