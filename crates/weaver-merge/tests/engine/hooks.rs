//! Hooks of the repository have a say in what lands.

use std::os::unix::fs::PermissionsExt;

use weaver_merge::domain::{PauseCause, Reason, Status};

use crate::bench::Bench;
use crate::repo::write_script;

#[tokio::test]
async fn a_change_that_a_hook_declines_leaves_with_the_hooks_words_and_the_next_lands() {
    let bench = Bench::new().await;
    // By what is in it: the second parent is the head.
    write_script(
        &bench.repo,
        "update",
        "if git cat-file -e $3:secret 2>/dev/null; then echo no secrets here >&2; exit 1; fi",
    );
    let a = bench.add("a", &[("secret", "1\n")]).await;
    let b = bench.add("b", &[("b", "1\n")]).await;
    bench.settle().await;
    assert_eq!(bench.reason(a).await, Reason::HookDeclined { text: "no secrets here".into() });
    assert!(bench.has_landed(b).await);
    let state = bench.state().await;
    assert_eq!((state.paused, state.declines), (None, None));
    let events = bench.events().await;
    let left = &events[&format!("merge-notice:{}:removed:{a}", bench.queue)];
    assert_eq!(
        (left["reason"].as_str(), left["text"].as_str()),
        (Some("hook_declined"), Some("no secrets here"))
    );
    bench.prove(&[]).await;
}

#[tokio::test]
async fn three_changes_declined_in_a_row_in_the_same_words_pause_the_queue() {
    let bench = Bench::new().await;
    write_script(&bench.repo, "pre-receive", "echo the disk of the ticket system is full >&2; exit 1");
    let mut entries = Vec::new();
    for name in ["a", "b", "c", "d"] {
        entries.push(bench.add(name, &[(name, "1\n")]).await);
    }
    bench.settle().await;
    let state = bench.state().await;
    let pause = state.paused.clone().unwrap();
    assert_eq!(pause.cause, PauseCause::Declined);
    assert!(pause.reason.contains("ticket system is full"), "{}", pause.reason);
    assert_eq!(
        state.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(),
        entries[3..],
        "the fourth waits"
    );
    std::fs::remove_file(bench.repo.path().join("hooks/pre-receive")).unwrap();
    bench.engine.resume(&bench.queue).await.unwrap();
    bench.settle().await;
    assert!(bench.has_landed(entries[3]).await);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn changes_declined_in_different_words_do_not_pause_the_queue() {
    let bench = Bench::new().await;
    write_script(&bench.repo, "update", "echo not $3 >&2; exit 1");
    let mut entries = Vec::new();
    for name in ["a", "b", "c", "d"] {
        entries.push(bench.add(name, &[(name, "1\n")]).await);
    }
    bench.settle().await;
    let state = bench.state().await;
    assert_eq!((state.paused, state.tally.removed["hook_declined"]), (None, 4));
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_hook_that_does_not_qualify_pauses_the_queue_and_nothing_lands_until_it_does() {
    let bench = Bench::new().await;
    let marker = bench.repo.scratch("marker").join("ran");
    write_script(&bench.repo, "update", &format!("echo ran > {}", marker.display()));
    let hook = bench.repo.path().join("hooks/update");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o777)).unwrap();
    let a = bench.add("a", &[("a", "1\n")]).await;
    bench.settle().await;
    let state = bench.state().await;
    let pause = state.paused.clone().unwrap();
    assert_eq!((pause.cause, state.entries[0].status), (PauseCause::Refused, Status::Ready));
    assert!(pause.reason.contains("hooks/update") && pause.reason.contains("chmod"), "{}", pause.reason);
    assert!(bench.repo.tip("main") == bench.first && !marker.exists());
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    bench.engine.resume(&bench.queue).await.unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await && marker.exists());
    bench.prove(&[]).await;
}
