//! Forged documents in the store, and verification without the store.

use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect};
use weaver_merge::domain::{EntryId, EntryOutcome, Oid};
use weaver_merge::engine::{
    ChainExport, ENTRY_KIND, EntryDetail, Fact, LINK_KIND, Link, QUEUE_KIND, SignedLink,
};
use weaver_merge::forge::Forge;
use weaver_merge::keys::Keyring;

use crate::harness::{Harness, keyring};

fn key(kind: &str, id: String) -> DocumentKey {
    DocumentKey::new(Namespace::default(), kind, id)
}

async fn put(harness: &Harness, key: &DocumentKey, body: Vec<u8>) {
    harness.tasks.store().put_document(key, body.into(), Expect::Anything, None).await.unwrap();
}

fn entry_key(harness: &Harness, id: EntryId) -> DocumentKey {
    key(ENTRY_KIND, format!("{}/{:010}", harness.queue, id.0))
}

/// Writes another entry in place of one.
async fn forge_entry(harness: &Harness, id: EntryId, forge: impl FnOnce(&mut EntryDetail)) {
    let mut detail = harness.entry(id).await;
    forge(&mut detail);
    put(harness, &entry_key(harness, id), serde_json::to_vec(&detail).unwrap()).await;
}

/// Writes another link in place of one, under the same name.
async fn forge_link(harness: &Harness, sequence: u64, forge: impl FnOnce(&mut Link, &mut SignedLink)) {
    let store = harness.tasks.store();
    let prefix = format!("{}/{sequence:010}-", harness.queue);
    let found = store.list_documents(&Namespace::default(), LINK_KIND, &prefix, None, 10).await.unwrap();
    let document = &found.items[0];
    let mut signed: SignedLink = serde_json::from_slice(&document.body).unwrap();
    let mut link = signed.read().unwrap();
    forge(&mut link, &mut signed);
    signed.body = serde_json::to_string(&link).unwrap();
    put(harness, &document.key, serde_json::to_vec(&signed).unwrap()).await;
}

async fn problems(harness: &Harness, id: EntryId) -> (String, String) {
    let one = harness.engine.verify(&harness.queue, id).await.unwrap().unwrap();
    let all = harness.engine.verify_all(&harness.queue, 0..1000).await.unwrap();
    assert!(!all.is_sound(), "{all:?}");
    (one.differences.join("; "), format!("{all:?}"))
}

/// Two landings and a change that failed.
async fn landed() -> (Harness, EntryId, EntryId, EntryId) {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let bad = harness.add("bad", &[("bad", "1\n")]).await;
    let c = harness.add("c", &[("c", "1\n")]).await;
    harness.settle().await;
    let report = harness.engine.verify_all(&harness.queue, 0..1000).await.unwrap();
    assert!(report.is_sound() && report.links.len() == 3, "{report:?}");
    (harness, a, bad, c)
}

#[tokio::test]
async fn a_forged_row_for_a_change_that_failed_is_rejected() {
    let (harness, _, bad, c) = landed().await;
    // Its candidate is made, the base is moved to it, and its document says that it landed and passed.
    let tip = harness.repo.tip("main");
    let message =
        format!("Merge `bad` into `main`\n\nWeaver-Queue: {}\nWeaver-Entry: {bad}\n", harness.queue);
    let head = harness.repo.tip("bad");
    let request = weaver_merge::forge::MergeRequest { base: tip.clone(), head: head.clone(), message };
    let merged = match harness.repo.forge().merge(&request).await.unwrap() {
        weaver_merge::forge::MergeOutcome::Merged(merged) => merged,
        other => panic!("{other:?}"),
    };
    let moved = harness.repo.forge().land("main", &tip, &merged.commit).await;
    assert_eq!(moved, Ok(weaver_merge::forge::Landing::Done));
    let good = harness.entry(c).await.certificate.unwrap();
    forge_entry(&harness, bad, |detail| {
        detail.outcome = Some(EntryOutcome::Landed);
        detail.certificate = Some(weaver_merge::engine::Certificate {
            entry: bad,
            pull_request: "bad".into(),
            base: tip,
            head,
            tree: merged.tree,
            commit: merged.commit,
            ..good
        });
    })
    .await;
    let (one, all) = problems(&harness, bad).await;
    assert!(one.contains("no signed link of the chain records this landing"), "{one}");
    assert!(all.contains(&format!("entry {bad}: no signed link")), "{all}");
}

#[tokio::test]
async fn tampered_history_pauses_its_queue_and_no_other() {
    let (harness, ..) = landed().await;
    let mut place = 0;
    harness.engine.verify_part(&harness.queue, &mut place).await.unwrap();
    assert_eq!((harness.state().await.paused, place), (None, 0), "a sound history pauses nothing");
    forge_link(&harness, 1, |link, _| {
        let Fact::Landing { certificate } = &mut link.fact else { panic!() };
        certificate.checks[0].log_hash = Some("0".repeat(64));
    })
    .await;
    harness.engine.verify_part(&harness.queue, &mut place).await.unwrap();
    let pause = harness.state().await.paused.expect("the queue is paused");
    assert!(pause.reason.contains("verify --all"), "{}", pause.reason);
}

#[tokio::test]
async fn a_renamed_check_is_rejected() {
    let (harness, a, _, _) = landed().await;
    forge_entry(&harness, a, |detail| {
        detail.certificate.as_mut().unwrap().checks[0].name.0 = "everything".into();
    })
    .await;
    let (one, _) = problems(&harness, a).await;
    assert!(one.contains("the signed link of this entry has a different certificate"), "{one}");
    // Also in the link itself.
    forge_link(&harness, 1, |link, _| {
        let Fact::Landing { certificate } = &mut link.fact else { panic!() };
        certificate.checks[0].name.0 = "everything".into();
    })
    .await;
    let (_, all) = problems(&harness, a).await;
    assert!(all.contains("link 1 is missing (hash"), "{all}");
}

#[tokio::test]
async fn zeroed_log_hashes_are_rejected() {
    let (harness, a, _, c) = landed().await;
    let zero = |certificate: &mut weaver_merge::engine::Certificate| {
        certificate.checks[0].log_hash = Some("0".repeat(64));
    };
    forge_entry(&harness, a, |detail| zero(detail.certificate.as_mut().unwrap())).await;
    let (one, _) = problems(&harness, a).await;
    assert!(one.contains("has a different certificate"), "{one}");
    forge_link(&harness, 2, |link, _| {
        let Fact::Landing { certificate } = &mut link.fact else { panic!() };
        zero(certificate);
    })
    .await;
    let (_, all) = problems(&harness, c).await;
    assert!(all.contains("link 2 is missing (hash"), "{all}");
}

#[tokio::test]
async fn a_missing_link_is_rejected() {
    let (harness, a, _, _) = landed().await;
    let mut export = harness.engine.export(&harness.queue).await.unwrap().unwrap();
    export.links.remove(1);
    let keys = keyring().trusted().unwrap();
    let report = export.verify(&harness.repo.forge(), &keys, 0..1000).await.unwrap();
    assert!(!report.is_sound() && report.differences[0].contains("link 1 is missing"), "{report:?}");
    // The same in the store.
    let prefix = format!("{}/{:010}-", harness.queue, 1);
    let store = harness.tasks.store();
    let found = store.list_documents(&Namespace::default(), LINK_KIND, &prefix, None, 10).await.unwrap();
    store.delete_document(&found.items[0].key, Expect::Anything).await.unwrap();
    let (one, all) = problems(&harness, a).await;
    assert!(one.contains("no signed link") && all.contains("link 1 is missing"), "{one} {all}");
}

#[tokio::test]
async fn a_truncated_chain_is_rejected() {
    let (harness, a, ..) = landed().await;
    let after_a = harness.entry(a).await.certificate.unwrap().commit;
    // The queue's document is set back to the first landing, and the last link removed.
    let mut state = harness.state().await;
    let mut export = harness.engine.export(&harness.queue).await.unwrap().unwrap();
    export.links.remove(0);
    let chain = state.chain.as_mut().unwrap();
    (chain.link, chain.commit) = (export.links[0].id(1), after_a);
    export.head = chain.clone();
    let report = export.verify(&harness.repo.forge(), &keyring().trusted().unwrap(), 0..1000).await.unwrap();
    assert!(report.base.as_ref().is_some_and(|base| base.contains("ahead of the chain")), "{report:?}");
    put(&harness, &key(QUEUE_KIND, harness.queue.0.clone()), serde_json::to_vec(&state).unwrap()).await;
    harness.settle().await;
    assert!(harness.state().await.paused.unwrap().reason.contains("outside this queue"));
}

#[tokio::test]
async fn a_link_that_is_signed_with_another_key_is_rejected() {
    let (harness, ..) = landed().await;
    let mut export = harness.engine.export(&harness.queue).await.unwrap().unwrap();
    // Made anew from the first link on, with every hash right, by a party that has the store and not the key.
    let forger = Keyring::ephemeral();
    let mut links: Vec<SignedLink> = Vec::new();
    for signed in export.links.iter().rev() {
        let mut link = signed.read().unwrap();
        link.previous = links.last().map(SignedLink::hash);
        links.push(SignedLink::new(&link, &forger).unwrap());
    }
    links.reverse();
    export.head.link = links[0].id(export.head.link.sequence);
    export.links = links;
    let verify = async |export: &ChainExport, keys: &Keyring| {
        export.verify(&harness.repo.forge(), &keys.trusted().unwrap(), 0..1000).await.unwrap()
    };
    let report = verify(&export, &keyring()).await;
    assert!(format!("{report:?}").contains("not among the trusted keys") && !report.is_sound());
    assert!(verify(&export, &forger).await.is_sound(), "it is the key alone that tells");
    // With the good key's name, and a signature that is not its own.
    for link in &mut export.links {
        link.key = keyring().trusted().unwrap()[0].clone();
    }
    export.head.link = export.links[0].id(2);
    assert!(!verify(&export, &keyring()).await.is_sound());
}

#[tokio::test]
async fn a_chain_is_verified_from_its_export_after_rotations_with_several_keys_and_no_store() {
    let harness = Harness::new().await;
    let directory = harness.repo.scratch("keys");
    let nodes = [Keyring::at(directory.join("one"), None), Keyring::at(directory.join("two"), None)];
    let mut first = None;
    for (name, node) in [("a", 0), ("b", 1), ("c", 0)] {
        harness.add(name, &[(name, "1\n")]).await;
        let engine = crate::harness::engine_with(&harness, nodes[node].clone());
        harness.settle_with(&engine).await;
        if first.is_none() {
            first = Some(nodes[0].trusted().unwrap()[0].clone());
            nodes[0].rotate().unwrap();
        }
    }
    let text = serde_json::to_string(&harness.engine.export(&harness.queue).await.unwrap().unwrap()).unwrap();
    let export: ChainExport = serde_json::from_str(&text).unwrap();
    let mut keys = keyring().trusted().unwrap(); // The queue was made by this one.
    keys.extend(nodes.iter().flat_map(|node| node.trusted().unwrap()));
    let forge = harness.repo.forge();
    let report = export.verify(&forge, &keys, 0..1000).await.unwrap();
    assert!(report.is_sound() && report.links.len() == 4, "{report:?}");
    keys.retain(|key| Some(key) != first.as_ref());
    let report = export.verify(&forge, &keys, 0..1000).await.unwrap();
    let bad: Vec<u64> =
        report.links.iter().filter(|link| !link.differences.is_empty()).map(|link| link.sequence).collect();
    assert_eq!(bad, [1], "what the key signed that is not trusted");
}

#[tokio::test]
async fn unsigned_certificates_count_only_ahead_of_the_first_link() {
    let (harness, a, ..) = landed().await;
    let certificate = harness.entry(a).await.certificate.unwrap();
    // A queue of an older version: its certificates stand in entries alone.
    let mut state = harness.state().await;
    state.chain = None;
    put(&harness, &key(QUEUE_KIND, harness.queue.0.clone()), serde_json::to_vec(&state).unwrap()).await;
    harness.settle().await;
    let start: Oid = harness.state().await.chain.unwrap().start;
    assert_eq!(start, harness.repo.tip("main"));
    assert_eq!(
        harness.engine.verify(&harness.queue, a).await.unwrap().unwrap().differences,
        Vec::<String>::new()
    );
    let d = harness.add("d", &[("d", "1\n")]).await;
    harness.settle().await;
    assert!(harness.engine.verify_all(&harness.queue, 0..1000).await.unwrap().is_sound());
    // One after the first link needs a link of its own.
    let signed = harness.entry(d).await.certificate.unwrap();
    forge_entry(&harness, a, |detail| {
        detail.certificate =
            Some(weaver_merge::engine::Certificate { entry: a, pull_request: "a".into(), ..signed });
    })
    .await;
    let (one, _) = problems(&harness, a).await;
    assert!(one.contains("no signed link"), "{one}");
    forge_entry(&harness, a, |detail| detail.certificate = Some(certificate)).await;
    assert!(harness.engine.verify_all(&harness.queue, 0..1000).await.unwrap().is_sound());
}

#[tokio::test]
async fn nothing_lands_that_cannot_be_signed() {
    use std::os::unix::fs::PermissionsExt;
    let harness = Harness::new().await;
    let file = harness.repo.scratch("keys").join("key");
    let node = Keyring::at(&file, None);
    node.sign(b"").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let engine = crate::harness::engine_with(&harness, node);
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle_with(&engine).await;
    assert_eq!(harness.repo.tip("main"), harness.first);
    let reason = harness.state().await.paused.unwrap().reason;
    assert!(reason.contains("other users can read it") && reason.contains("without a signature"), "{reason}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    engine.resume(&harness.queue).await.unwrap();
    harness.settle_with(&engine).await;
    assert!(harness.has_landed(a).await);
}

#[tokio::test]
async fn a_certificate_covers_names_commands_results_and_logs_of_checks() {
    let (harness, a, ..) = landed().await;
    let check = harness.entry(a).await.certificate.unwrap().checks.remove(0);
    assert_eq!((check.name.0.as_str(), check.result.as_str()), ("unit", "passed"));
    assert_eq!(check.command[..2], ["sh", "-c"]);
    assert_eq!(check.log_hash.unwrap().len(), 64);
}
