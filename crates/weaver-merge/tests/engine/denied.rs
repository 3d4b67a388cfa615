//! The repository cannot be written to, for real: its refs are mounted read-only, or its disk is full. That
//! happens in a mount namespace of a process of its own, which is this program again with the name of the
//! same test, so that nothing is left behind however the test ends.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use weaver_merge::domain::Status;

use crate::bench::Bench;

const IS_CHILD: &str = "WEAVER_MERGE_ON_SMALL_DISK";
/// Enough for the repository and not for much else.
const DISK: &str = "4m";

/// Does a test in a process whose temporary directory is a small disk of its own; says whether this is that
/// process.
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
        .args(["--exact", &format!("denied::{test}"), "--nocapture"])
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
async fn go_on(bench: &Bench, rounds: u32) {
    let registry = bench.registry();
    for _ in 0..rounds {
        bench.engine.reconcile_all().await.unwrap();
        bench.tasks.drain(&registry).await;
        bench.tasks.clock().advance(Duration::from_secs(1000));
    }
}

#[tokio::test]
async fn a_base_that_may_not_be_moved_keeps_the_change_and_people_are_told() {
    if !is_on_small_disk("a_base_that_may_not_be_moved_keeps_the_change_and_people_are_told") {
        return;
    }
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    let refs = bench.repo.path().join("refs");
    let refs = refs.to_str().unwrap();
    mount(&["mount", "--bind", refs, refs]);
    mount(&["mount", "-o", "remount,bind,ro", refs]);
    go_on(&bench, 8).await;
    let state = bench.state().await;
    let trouble = state.entries[0].trouble.as_ref().unwrap();
    assert!(trouble.message.contains("Read-only file system") && trouble.count >= 4, "{trouble:?}");
    assert_eq!((state.entries[0].id, state.entries[0].status), (a, Status::Ready));
    assert!(bench.events().await.keys().any(|key| key.contains(":trouble:")), "people are told");
    assert_eq!(bench.repo.tip("main"), bench.first);
    bench.prove(&[]).await;
    mount(&["umount", refs]);
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    bench.prove(&[]).await;
}

#[tokio::test]
async fn a_full_disk_holds_up_a_change_and_takes_nobody_out() {
    if !is_on_small_disk("a_full_disk_holds_up_a_change_and_takes_nobody_out") {
        return;
    }
    let bench = Bench::new().await;
    let a = bench.add("a", &[("a", "1\n")]).await;
    // While its candidate is built.
    let filler = fill();
    go_on(&bench, 3).await;
    let entry = bench.state().await.entries[0].clone();
    assert_eq!((entry.id, entry.status), (a, Status::Pending));
    assert!(entry.trouble.as_ref().unwrap().message.contains("No space left"), "{entry:?}");
    fs::remove_file(&filler).unwrap();
    bench.engine.reconcile_all().await.unwrap();
    assert_eq!(bench.state().await.entries[0].status, Status::Checking);
    // While the files of its check are written: the machine is to blame, not the change.
    let filler = fill();
    go_on(&bench, 2).await;
    let entry = bench.state().await.entries[0].clone();
    assert!(entry.checks[0].runs.iter().all(|run| run.end.as_ref().is_none_or(|end| !end.is_red())));
    fs::remove_file(&filler).unwrap();
    let registry = bench.registry();
    while bench.tasks.drain(&registry).await.is_empty() {
        bench.engine.reconcile_all().await.unwrap();
    }
    // While it lands.
    let filler = fill();
    go_on(&bench, 2).await;
    let entry = bench.state().await.entries[0].clone();
    assert_eq!(entry.status, Status::Ready, "{entry:?}");
    assert!(entry.trouble.as_ref().unwrap().message.contains("couldn't write"), "{entry:?}");
    assert_eq!(bench.repo.tip("main"), bench.first);
    fs::remove_file(&filler).unwrap();
    bench.settle().await;
    assert!(bench.has_landed(a).await);
    bench.prove(&[]).await;
}
