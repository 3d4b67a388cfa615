//! A repository that really cannot be written: its refs are mounted read-only, or its disk is full.
//!
//! It runs in a mount namespace of a child process, which is this program again with the name of the same
//! test, so that nothing is left behind however the test ends.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use weaver_merge::domain::Status;

use crate::harness::Harness;

const IS_CHILD: &str = "WEAVER_MERGE_ON_SMALL_DISK";
/// Enough for the repository and not for much else.
const DISK: &str = "4m";

/// Runs a test in a child process whose temporary directory is a small tmpfs; true in that process.
fn is_on_small_disk(test: &str) -> bool {
    if std::env::var_os(IS_CHILD).is_some() {
        return true;
    }
    let number = std::process::id();
    let directory = std::env::temp_dir().join(format!("weaver-merge-disk-{test}-{number}"));
    fs::create_dir_all(&directory).unwrap();
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    // Without root, a user namespace gives the right to mount.
    let rights: &[&str] = if is_root { &["--mount"] } else { &["--mount", "--map-root-user"] };
    let mount = format!("mount -t tmpfs -o size={DISK} tmpfs \"$TMPDIR\" && exec \"$0\" \"$@\"");
    let output = Command::new("unshare")
        .args(rights)
        .args(["sh", "-c", &mount])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("unwritable_repository::{test}"), "--nocapture"])
        .env(IS_CHILD, "1")
        .env("TMPDIR", &directory)
        .output()
        .unwrap_or_else(|error| panic!("unshare: {error}; apt-get install util-linux mount"));
    fs::remove_dir(&directory).unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && said.contains("1 passed"),
        "it did not pass (it mounts a tmpfs: run it as root, or allow user namespaces):\n{said}"
    );
    false
}

fn mount(words: &[&str]) {
    let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
    assert!(status.success(), "{words:?}");
}

/// Fills the disk to its last byte, until it is removed.
fn fill() -> PathBuf {
    let path = std::env::temp_dir().join("filler");
    let mut file = fs::File::create(&path).unwrap();
    for size in [64 * 1024, 1024, 1] {
        let piece = vec![b'x'; size];
        loop {
            match file.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    path
}

/// A few rounds of the engine and its worker, minutes apart.
async fn run_rounds(harness: &Harness, rounds: u32) {
    let registry = harness.registry();
    for _ in 0..rounds {
        harness.engine.reconcile_all().await.unwrap();
        harness.tasks.drain(&registry).await;
        harness.tasks.clock().advance(Duration::from_secs(1000));
    }
}

#[tokio::test]
async fn a_read_only_base_keeps_the_change_queued_and_an_event_says_so() {
    if !is_on_small_disk("a_read_only_base_keeps_the_change_queued_and_an_event_says_so") {
        return;
    }
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    let refs = harness.repo.path().join("refs");
    let refs = refs.to_str().unwrap();
    mount(&["mount", "--bind", refs, refs]);
    mount(&["mount", "-o", "remount,bind,ro", refs]);
    run_rounds(&harness, 8).await;
    let state = harness.state().await;
    let fault = state.entries[0].fault.as_ref().unwrap();
    assert!(fault.message.contains("Read-only file system") && fault.count >= 4, "{fault:?}");
    assert_eq!((state.entries[0].id, state.entries[0].status), (a, Status::Ready));
    assert!(harness.events().await.keys().any(|key| key.contains(":trouble:")), "a notice is published");
    assert_eq!(harness.repo.tip("main"), harness.first);
    harness.prove(&[]).await;
    mount(&["umount", refs]);
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_full_disk_delays_a_change_and_ejects_no_entry() {
    if !is_on_small_disk("a_full_disk_delays_a_change_and_ejects_no_entry") {
        return;
    }
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    // While its candidate is built.
    let filler = fill();
    run_rounds(&harness, 3).await;
    let entry = harness.state().await.entries[0].clone();
    assert_eq!((entry.id, entry.status), (a, Status::Pending));
    assert!(entry.fault.as_ref().unwrap().message.contains("No space left"), "{entry:?}");
    fs::remove_file(&filler).unwrap();
    harness.engine.reconcile_all().await.unwrap();
    assert_eq!(harness.state().await.entries[0].status, Status::Checking);
    // While the files of its check are written: the machine is to blame, not the change.
    let filler = fill();
    run_rounds(&harness, 2).await;
    let entry = harness.state().await.entries[0].clone();
    assert!(entry.checks[0].runs.iter().all(|run| run.outcome.as_ref().is_none_or(|end| !end.is_failure())));
    fs::remove_file(&filler).unwrap();
    let registry = harness.registry();
    while harness.tasks.drain(&registry).await.is_empty() {
        harness.engine.reconcile_all().await.unwrap();
    }
    // The files of the check are removed when it is gone: later, that would free space on the full disk.
    drop(registry);
    // While it lands.
    let filler = fill();
    run_rounds(&harness, 2).await;
    let entry = harness.state().await.entries[0].clone();
    assert_eq!(entry.status, Status::Ready, "{entry:?}");
    assert!(entry.fault.as_ref().unwrap().message.contains("remote unpack failed"), "{entry:?}");
    assert_eq!(harness.repo.tip("main"), harness.first);
    fs::remove_file(&filler).unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    harness.prove(&[]).await;
}
