//! A store whose documents were forged, and certificates that are checked without it.

use weaver_core::name::Namespace;
use weaver_core::ports::{DocumentKey, Expect};
use weaver_merge::domain::{Departure, EntryId, Oid};
use weaver_merge::engine::{
    ChainExport, ENTRY_KIND, EntryDetail, Fact, LINK_KIND, Link, QUEUE_KIND, SignedLink,
};
use weaver_merge::forge::Forge;
use weaver_merge::keys::Keyring;

use crate::bench::{Bench, keyring};

fn key(kind: &str, id: String) -> DocumentKey {
    DocumentKey::new(Namespace::default(), kind, id)
}

async fn put(bench: &Bench, key: &DocumentKey, body: Vec<u8>) {
    bench.tasks.store().put_document(key, body.into(), Expect::Anything, None).await.unwrap();
}

fn entry_key(bench: &Bench, id: EntryId) -> DocumentKey {
    key(ENTRY_KIND, format!("{}/{:010}", bench.queue, id.0))
}

/// Writes another entry in place of one.
async fn forge_entry(bench: &Bench, id: EntryId, forge: impl FnOnce(&mut EntryDetail)) {
    let mut detail = bench.entry(id).await;
    forge(&mut detail);
    put(bench, &entry_key(bench, id), serde_json::to_vec(&detail).unwrap()).await;
}

/// Writes another link in place of one, under the same name.
async fn forge_link(bench: &Bench, sequence: u64, forge: impl FnOnce(&mut Link, &mut SignedLink)) {
    let store = bench.tasks.store();
    let prefix = format!("{}/{sequence:010}-", bench.queue);
    let found = store.list_documents(&Namespace::default(), LINK_KIND, &prefix, None, 10).await.unwrap();
    let document = &found.items[0];
    let mut signed: SignedLink = serde_json::from_slice(&document.body).unwrap();
    let mut link = signed.read().unwrap();
    forge(&mut link, &mut signed);
    signed.body = serde_json::to_string(&link).unwrap();
    put(bench, &document.key, serde_json::to_vec(&signed).unwrap()).await;
}

async fn problems(bench: &Bench, id: EntryId) -> (String, String) {
    let one = bench.engine.verify(&bench.queue, id).await.unwrap().unwrap();
    let all = bench.engine.verify_all(&bench.queue, 0..1000).await.unwrap();
    assert!(!all.is_sound(), "{all:?}");
    (one.differences.join("; "), format!("{all:?}"))
}

/// Two landings and a change that failed.
async fn landed() -> (Bench, EntryId, EntryId, EntryId) {
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let bad = bench.add("bad", &[("bad", "1\n")]).await;
    let c = bench.add("c", &[("c", "1\n")]).await;
    bench.settle().await;
    let report = bench.engine.verify_all(&bench.queue, 0..1000).await.unwrap();
    assert!(report.is_sound() && report.links.len() == 3, "{report:?}");
    (bench, a, bad, c)
}

#[tokio::test]
async fn a_forged_row_for_a_change_that_failed_is_rejected() {
    let (bench, _, bad, c) = landed().await;
    // Its candidate is made, the base is moved to it, and its document says that it landed and passed.
    let tip = bench.repo.tip("main");
    let message = format!("Merge `bad` into `main`\n\nWeaver-Queue: {}\nWeaver-Entry: {bad}\n", bench.queue);
    let head = bench.repo.tip("bad");
    let request = weaver_merge::forge::MergeRequest { base: tip.clone(), head: head.clone(), message };
    let merged = match bench.repo.forge().merge(&request).await.unwrap() {
        weaver_merge::forge::MergeOutcome::Merged(merged) => merged,
        other => panic!("{other:?}"),
    };
    bench.repo.git(&["update-ref", "refs/heads/main", merged.commit.as_str()]);
    let good = bench.entry(c).await.certificate.unwrap();
    forge_entry(&bench, bad, |detail| {
        detail.departure = Some(Departure::Landed);
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
    let (one, all) = problems(&bench, bad).await;
    assert!(one.contains("no signed link of the chain has this landing"), "{one}");
    assert!(all.contains(&format!("entry {bad}: no signed link")), "{all}");
}

#[tokio::test]
async fn a_history_that_was_changed_later_pauses_the_queue_and_another_queue_goes_on() {
    let (bench, ..) = landed().await;
    let mut place = 0;
    bench.engine.verify_part(&bench.queue, &mut place).await.unwrap();
    assert_eq!((bench.state().await.paused, place), (None, 0), "a sound history pauses nothing");
    forge_link(&bench, 1, |link, _| {
        let Fact::Landing { certificate } = &mut link.fact else { panic!() };
        certificate.checks[0].log_hash = Some("0".repeat(64));
    })
    .await;
    bench.engine.verify_part(&bench.queue, &mut place).await.unwrap();
    let pause = bench.state().await.paused.expect("the queue is paused");
    assert!(pause.reason.contains("verify --all"), "{}", pause.reason);
}

#[tokio::test]
async fn a_renamed_check_is_rejected() {
    let (bench, a, _, _) = landed().await;
    forge_entry(&bench, a, |detail| {
        detail.certificate.as_mut().unwrap().checks[0].name.0 = "everything".into();
    })
    .await;
    let (one, _) = problems(&bench, a).await;
    assert!(one.contains("the signed link of this entry says something else"), "{one}");
    // Also in the link itself.
    forge_link(&bench, 1, |link, _| {
        let Fact::Landing { certificate } = &mut link.fact else { panic!() };
        certificate.checks[0].name.0 = "everything".into();
    })
    .await;
    let (_, all) = problems(&bench, a).await;
    assert!(all.contains("link 1 is missing (its hash is"), "{all}");
}

#[tokio::test]
async fn zeroed_log_hashes_are_rejected() {
    let (bench, a, _, c) = landed().await;
    let zero = |certificate: &mut weaver_merge::engine::Certificate| {
        certificate.checks[0].log_hash = Some("0".repeat(64));
    };
    forge_entry(&bench, a, |detail| zero(detail.certificate.as_mut().unwrap())).await;
    let (one, _) = problems(&bench, a).await;
    assert!(one.contains("says something else"), "{one}");
    forge_link(&bench, 2, |link, _| {
        let Fact::Landing { certificate } = &mut link.fact else { panic!() };
        zero(certificate);
    })
    .await;
    let (_, all) = problems(&bench, c).await;
    assert!(all.contains("link 2 is missing (its hash is"), "{all}");
}

#[tokio::test]
async fn a_missing_link_is_rejected() {
    let (bench, a, _, _) = landed().await;
    let mut export = bench.engine.export(&bench.queue).await.unwrap().unwrap();
    export.links.remove(1);
    let keys = keyring().trusted().unwrap();
    let report = export.verify(&bench.repo.forge(), &keys, 0..1000).await.unwrap();
    assert!(!report.is_sound() && report.differences[0].contains("link 1 is missing"), "{report:?}");
    // The same in the store.
    let prefix = format!("{}/{:010}-", bench.queue, 1);
    let store = bench.tasks.store();
    let found = store.list_documents(&Namespace::default(), LINK_KIND, &prefix, None, 10).await.unwrap();
    store.delete_document(&found.items[0].key, Expect::Anything).await.unwrap();
    let (one, all) = problems(&bench, a).await;
    assert!(one.contains("no signed link") && all.contains("link 1 is missing"), "{one} {all}");
}

#[tokio::test]
async fn a_chain_that_was_cut_off_at_its_end_is_rejected() {
    let (bench, a, ..) = landed().await;
    let after_a = bench.entry(a).await.certificate.unwrap().commit;
    // The queue's document is set back to the first landing, and the last link removed.
    let mut state = bench.state().await;
    let mut export = bench.engine.export(&bench.queue).await.unwrap().unwrap();
    export.links.remove(0);
    let chain = state.chain.as_mut().unwrap();
    (chain.link, chain.commit) = (export.links[0].id(1), after_a);
    export.head = chain.clone();
    let report = export.verify(&bench.repo.forge(), &keyring().trusted().unwrap(), 0..1000).await.unwrap();
    assert!(report.base.as_ref().is_some_and(|base| base.contains("ahead of the chain")), "{report:?}");
    put(&bench, &key(QUEUE_KIND, bench.queue.0.clone()), serde_json::to_vec(&state).unwrap()).await;
    bench.settle().await;
    assert!(bench.state().await.paused.unwrap().reason.contains("outside of this queue"));
}

#[tokio::test]
async fn a_link_that_is_signed_with_another_key_is_rejected() {
    let (bench, ..) = landed().await;
    let mut export = bench.engine.export(&bench.queue).await.unwrap().unwrap();
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
        export.verify(&bench.repo.forge(), &keys.trusted().unwrap(), 0..1000).await.unwrap()
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
    let bench = Bench::new().await;
    let directory = bench.repo.scratch("keys");
    let nodes = [Keyring::at(directory.join("one"), None), Keyring::at(directory.join("two"), None)];
    let mut first = None;
    for (name, node) in [("a", 0), ("b", 1), ("c", 0)] {
        bench.add(name, &[(name, "1\n")]).await;
        let engine = crate::bench::engine_with(&bench, nodes[node].clone());
        bench.settle_with(&engine).await;
        if first.is_none() {
            first = Some(nodes[0].trusted().unwrap()[0].clone());
            nodes[0].rotate().unwrap();
        }
    }
    let text = serde_json::to_string(&bench.engine.export(&bench.queue).await.unwrap().unwrap()).unwrap();
    let export: ChainExport = serde_json::from_str(&text).unwrap();
    let mut keys = keyring().trusted().unwrap(); // The queue was made by this one.
    keys.extend(nodes.iter().flat_map(|node| node.trusted().unwrap()));
    let forge = bench.repo.forge();
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
    let (bench, a, ..) = landed().await;
    let certificate = bench.entry(a).await.certificate.unwrap();
    // A queue of an older version: its certificates stand in entries alone.
    let mut state = bench.state().await;
    state.chain = None;
    put(&bench, &key(QUEUE_KIND, bench.queue.0.clone()), serde_json::to_vec(&state).unwrap()).await;
    bench.settle().await;
    let start: Oid = bench.state().await.chain.unwrap().start;
    assert_eq!(start, bench.repo.tip("main"));
    assert_eq!(
        bench.engine.verify(&bench.queue, a).await.unwrap().unwrap().differences,
        Vec::<String>::new()
    );
    let d = bench.add("d", &[("d", "1\n")]).await;
    bench.settle().await;
    assert!(bench.engine.verify_all(&bench.queue, 0..1000).await.unwrap().is_sound());
    // One after the first link needs a link of its own.
    let signed = bench.entry(d).await.certificate.unwrap();
    forge_entry(&bench, a, |detail| {
        detail.certificate =
            Some(weaver_merge::engine::Certificate { entry: a, pull_request: "a".into(), ..signed });
    })
    .await;
    let (one, _) = problems(&bench, a).await;
    assert!(one.contains("no signed link"), "{one}");
    forge_entry(&bench, a, |detail| detail.certificate = Some(certificate)).await;
    assert!(bench.engine.verify_all(&bench.queue, 0..1000).await.unwrap().is_sound());
}

#[tokio::test]
async fn nothing_lands_that_cannot_be_signed() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new().await;
    let file = bench.repo.scratch("keys").join("key");
    let node = Keyring::at(&file, None);
    node.sign(b"").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let engine = crate::bench::engine_with(&bench, node);
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle_with(&engine).await;
    assert_eq!(bench.repo.tip("main"), bench.first);
    let reason = bench.state().await.paused.unwrap().reason;
    assert!(reason.contains("others can read it") && reason.contains("cannot be signed"), "{reason}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    engine.resume(&bench.queue).await.unwrap();
    bench.settle_with(&engine).await;
    assert!(bench.has_landed(a).await);
}

#[tokio::test]
async fn a_certificate_covers_names_commands_results_and_logs_of_checks() {
    let (bench, a, ..) = landed().await;
    let check = bench.entry(a).await.certificate.unwrap().checks.remove(0);
    assert_eq!((check.name.0.as_str(), check.result.as_str()), ("unit", "passed"));
    assert_eq!(check.command[..2], ["sh", "-c"]);
    assert_eq!(check.log_hash.unwrap().len(), 64);
}
