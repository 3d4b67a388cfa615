//! Server-side hooks that decline landings.

use std::os::unix::fs::PermissionsExt;

use weaver_merge::domain::{PauseCause, Reason, Status};

use crate::harness::Harness;
use crate::repo::write_script;

#[tokio::test]
async fn a_change_that_a_hook_declines_is_ejected_with_its_output_and_the_next_lands() {
    let harness = Harness::new().await;
    // By what is in it: the second parent is the head.
    write_script(
        &harness.repo,
        "update",
        "if git cat-file -e $3:secret 2>/dev/null; then echo no secrets here >&2; exit 1; fi",
    );
    let a = harness.add("a", &[("secret", "1\n")]).await;
    let b = harness.add("b", &[("b", "1\n")]).await;
    harness.settle().await;
    assert_eq!(harness.reason(a).await, Reason::HookDeclined { text: "no secrets here".into() });
    assert!(harness.has_landed(b).await);
    let state = harness.state().await;
    assert_eq!((state.paused, state.declines), (None, None));
    let events = harness.events().await;
    let left = &events[&format!("merge-notice:{}:removed:{a}", harness.queue)];
    assert_eq!(
        (left["reason"].as_str(), left["text"].as_str()),
        (Some("hook_declined"), Some("no secrets here"))
    );
    harness.prove(&[]).await;
}

#[tokio::test]
async fn three_changes_declined_in_a_row_with_the_same_text_pause_the_queue() {
    let harness = Harness::new().await;
    write_script(&harness.repo, "pre-receive", "echo the disk of the ticket system is full >&2; exit 1");
    let mut entries = Vec::new();
    for name in ["a", "b", "c", "d"] {
        entries.push(harness.add(name, &[(name, "1\n")]).await);
    }
    harness.settle().await;
    let state = harness.state().await;
    let pause = state.paused.clone().unwrap();
    assert_eq!(pause.cause, PauseCause::Declined);
    assert!(pause.reason.contains("ticket system is full"), "{}", pause.reason);
    assert_eq!(
        state.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(),
        entries[3..],
        "the fourth waits"
    );
    std::fs::remove_file(harness.repo.path().join("hooks/pre-receive")).unwrap();
    harness.engine.resume(&harness.queue).await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(entries[3]).await);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn changes_declined_with_different_texts_do_not_pause_the_queue() {
    let harness = Harness::new().await;
    write_script(&harness.repo, "update", "echo not $3 >&2; exit 1");
    let mut entries = Vec::new();
    for name in ["a", "b", "c", "d"] {
        entries.push(harness.add(name, &[(name, "1\n")]).await);
    }
    harness.settle().await;
    let state = harness.state().await;
    assert_eq!((state.paused, state.tally.removed["hook_declined"]), (None, 4));
    harness.prove(&[]).await;
}

#[tokio::test]
async fn an_insecure_hook_pauses_the_queue_and_nothing_lands_until_it_is_fixed() {
    let harness = Harness::new().await;
    let marker = harness.repo.scratch("marker").join("ran");
    write_script(&harness.repo, "update", &format!("echo ran > {}", marker.display()));
    let hook = harness.repo.path().join("hooks/update");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o777)).unwrap();
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    let state = harness.state().await;
    let pause = state.paused.clone().unwrap();
    assert_eq!((pause.cause, state.entries[0].status), (PauseCause::Refused, Status::Ready));
    assert!(pause.reason.contains("hooks/update") && pause.reason.contains("chmod"), "{}", pause.reason);
    assert!(harness.repo.tip("main") == harness.first && !marker.exists());
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    harness.engine.resume(&harness.queue).await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await && marker.exists());
    harness.prove(&[]).await;
}
