//! Unreadable records other than tasks: queue settings, heartbeats and documents.

use bytes::Bytes;
use weaver_core::explain::Reason;
use weaver_core::name::Namespace;
use weaver_core::ports::{Directive, DocumentKey, Expect, QueueSettings, RunnerKey};
use weaver_core::quarantine::RecordKind;
use weaver_core::queue::QueueExt;

use super::cases;
use super::explain::beat;
use super::unreadable::{quarantined, spoiled};
use weaver_testkit::harness::{
    CorruptedRecord, Corruption, Harness, namespace, queue, seconds, task, worker,
};

cases![
    a_queue_with_undecodable_settings_counts_as_paused_and_can_be_set_again,
    a_queue_with_settings_of_an_unknown_format_counts_as_paused,
    a_worker_with_an_undecodable_heartbeat_is_absent_until_its_next_heartbeat,
    a_worker_with_a_heartbeat_of_an_unknown_format_is_absent,
    an_undecodable_document_is_left_out_and_can_be_written_again,
    a_document_of_an_unknown_format_is_left_out,
];

async fn settings(harness: Harness, how: Corruption) {
    let (here, elsewhere) = (Namespace::default(), namespace("elsewhere"));
    let (broken, fine) = (queue("broken"), queue("default"));
    let limit = QueueSettings { paused: false, max_running: Some(5), ..QueueSettings::default() };
    for name in [&broken, &fine] {
        harness.store.put_queue(&here, name, limit, Expect::Anything).await.expect("it can be set");
    }
    harness.store.put_queue(&elsewhere, &broken, limit, Expect::Anything).await.expect("it can be set");
    let waiting = harness.enqueue(task().queue("broken")).await;
    let free = harness.enqueue(task()).await;
    let record = CorruptedRecord::QueueSettings(here.clone(), broken.clone());
    let Some(harness) = spoiled(harness, record, how).await else { return };
    let mut request = harness.request(5);
    request.queues = vec![broken.clone(), fine.clone()];
    let leased = harness.lease_as(request).await;
    assert_eq!(leased.iter().map(|each| &each.lease.key).collect::<Vec<_>>(), [&free]);
    let queues = harness.store.list_queues(&here).await.expect("the others can be read");
    let shown: Vec<_> = queues.iter().map(|each| (each.name.as_str(), each.settings.paused)).collect();
    assert_eq!(shown, [("broken", true), ("default", false)]);
    let found = quarantined(&harness).await;
    assert_eq!(found.iter().map(|each| each.kind).collect::<Vec<_>>(), [RecordKind::QueueSettings]);
    assert_eq!((&found[0].namespace, found[0].queue.as_ref()), (&here, Some(&broken)));
    let reasons = harness.store.explain(&waiting).await.expect("it is there").reasons;
    assert!(reasons.contains(&Reason::SettingsUnreadable { queue: broken.clone() }), "{reasons:?}");
    harness.store.put_queue(&here, &broken, limit, Expect::Anything).await.expect("it can be written again");
    let mut request = harness.request(5);
    request.queues = vec![broken.clone()];
    assert_eq!(harness.lease_as(request).await.len(), 1);
    harness.store.list_queues(&here).await.expect("all can be read");
    assert_eq!(quarantined(&harness).await, []);
}

async fn a_queue_with_undecodable_settings_counts_as_paused_and_can_be_set_again(harness: Harness) {
    settings(harness, Corruption::Undecodable).await;
}

async fn a_queue_with_settings_of_an_unknown_format_counts_as_paused(harness: Harness) {
    settings(harness, Corruption::UnknownFormat).await;
}

async fn runner(harness: Harness, how: Corruption) {
    let here = Namespace::default();
    harness.store.beat(vec![beat("a"), beat("b"), beat("c")]).await.expect("the store answers");
    let key = RunnerKey { namespace: here.clone(), runner_id: worker("b") };
    let Some(harness) = spoiled(harness, CorruptedRecord::Runner(key.clone()), how).await else { return };
    let names = async |harness: &Harness| {
        let page = harness.store.list_runners(&here, None, 100).await.expect("the others can be read");
        page.items.iter().map(|each| each.beat.key.runner_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&harness).await, ["a", "c"]);
    let found = quarantined(&harness).await;
    assert_eq!(
        found.iter().map(|each| (each.kind, each.id.as_str())).collect::<Vec<_>>(),
        [(RecordKind::Runner, "b")]
    );
    harness.store.direct(&key, Directive::Drain).await.expect("the directive is stored");
    let directives = harness.store.beat(vec![beat("a"), beat("b")]).await.expect("the store answers");
    assert_eq!(directives[0], Directive::Run);
    assert_eq!(names(&harness).await, ["a", "b", "c"]);
    harness.advance(seconds(61)).await;
    harness.maintain().await;
    assert_eq!(quarantined(&harness).await, []);
}

async fn a_worker_with_an_undecodable_heartbeat_is_absent_until_its_next_heartbeat(harness: Harness) {
    runner(harness, Corruption::Undecodable).await;
}

async fn a_worker_with_a_heartbeat_of_an_unknown_format_is_absent(harness: Harness) {
    runner(harness, Corruption::UnknownFormat).await;
}

async fn document(harness: Harness, how: Corruption) {
    let here = Namespace::default();
    let key = |id: &str| DocumentKey::new(here.clone(), "note", id);
    let due = harness.now().await;
    for id in ["a", "b", "c"] {
        let (key, body) = (key(id), Bytes::from_static(b"{}"));
        let put = harness.store.put_document(&key, body, Expect::Absent, Some(due));
        put.await.expect("it can be written");
    }
    let Some(harness) = spoiled(harness, CorruptedRecord::Document(key("b")), how).await else { return };
    let ids = async |harness: &Harness| {
        let page = harness.store.list_documents(&here, "note", "", None, 100).await.expect("a list");
        page.items.into_iter().map(|each| each.key.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&harness).await, ["a", "c"]);
    let due = harness.store.due_documents("note", due, 100).await.expect("what is due");
    assert_eq!(due.into_iter().map(|each| each.key.id).collect::<Vec<_>>(), ["a", "c"]);
    let found = quarantined(&harness).await;
    assert_eq!(
        found.iter().map(|each| (each.kind, each.id.as_str())).collect::<Vec<_>>(),
        [(RecordKind::Document, "note/b")]
    );
    assert!(harness.store.get_document(&key("b")).await.is_err(), "a direct read reports it");
    let (victim, body) = (key("b"), Bytes::from_static(b"[]"));
    let put = harness.store.put_document(&victim, body, Expect::Anything, None);
    put.await.expect("it can be written again");
    assert_eq!(ids(&harness).await, ["a", "b", "c"]);
    harness.advance(seconds(61)).await;
    harness.maintain().await;
    assert_eq!(quarantined(&harness).await, []);
}

async fn an_undecodable_document_is_left_out_and_can_be_written_again(harness: Harness) {
    document(harness, Corruption::Undecodable).await;
}

async fn a_document_of_an_unknown_format_is_left_out(harness: Harness) {
    document(harness, Corruption::UnknownFormat).await;
}
