//! Checks in sandboxes, which share the files of a commit.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::Trial;
use weaver_merge::config::CONFIG_PATH;
use weaver_merge::domain::EntryId;
use weaver_process::confine::ConfinerOptions;
use weaver_process::{Confiner, Isolation, Rules};
use weaver_runtime::Registry;

use crate::harness::{Harness, forges};
use crate::hooked::HookedForges;
use crate::proof::config;
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("checks_of_a_commit_share_its_files_and_see_no_writes_of_each_other", checks_share_files),
        trial("a_program_of_the_change_runs_from_shared_files", own_program),
        trial("checks_of_a_candidate_share_a_copy_with_the_protected_files_of_the_base", protected_files),
    ]
}

/// Fails if a check before it wrote to the same files, and writes to them: changes, adds, removes, renames.
const DIRTY: &str = "test ! -e dirt && test \"$(cat README)\" = hello && test -e src/old && test ! -e src/new \
    && echo x > dirt && echo y > README && mv src/old src/new && mkdir empty && chmod 700 src && echo z >> src/kept";

fn isolation() -> Isolation {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let options = ConfinerOptions { is_root, ..ConfinerOptions::default() };
    let confiner = Confiner::new(std::env::current_exe().unwrap(), options);
    Isolation { confiner: Some(Arc::new(confiner)), rules: Rules::default() }
}

/// Whether overlays can be mounted here: not on every file system, and not in every container.
fn has_overlays(directory: &Path) -> bool {
    let script = "mkdir l u w m && mount -t overlay overlay -o userxattr,lowerdir=l,upperdir=u,workdir=w m";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).current_dir(directory);
    command.output().is_ok_and(|output| output.status.success())
}

/// A worker whose checks run in sandboxes, and how often it wrote files of a commit.
struct Worker {
    registry: Registry,
    written: Arc<AtomicUsize>,
}

impl Worker {
    fn new(harness: &Harness) -> Self {
        let written = Arc::new(AtomicUsize::new(0));
        let count = {
            let written = Arc::clone(&written);
            move |effect: &'static str| {
                written.fetch_add(usize::from(effect == "check_out"), Ordering::SeqCst);
            }
        };
        let forges = HookedForges { forges: forges(), hook: Arc::new(count) };
        Self { registry: harness.registry_with(isolation(), Arc::new(forges)), written }
    }

    /// Reconciles and runs checks until nothing changes; the entry has landed then.
    async fn land(&self, harness: &Harness, entry: EntryId) {
        loop {
            let before = harness.state().await;
            harness.engine.reconcile_all().await.unwrap();
            let ran = harness.tasks.drain(&self.registry).await.len();
            if ran == 0 && harness.state().await == before {
                break;
            }
        }
        assert!(harness.has_landed(entry).await, "{:?}", harness.entry(entry).await);
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

fn checks_share_files() {
    run(async {
        let checks = ["one", "two", "three"].map(|name| (name, DIRTY));
        let harness = Harness::with(|_| config(&checks)).await;
        let worker = Worker::new(&harness);
        // Once it has landed, checks also fail unless they see the files of the next commit.
        let next = format!("test ! -e gone && test \"$(cat src/kept)\" = 2 && {DIRTY}");
        let next = config(&["one", "two", "three"].map(|name| (name, next.as_str())));
        let files = [("src/old", "1\n"), ("src/kept", "1\n"), ("gone", "1\n"), (CONFIG_PATH, next.as_str())];
        let a = harness.add("a", &files).await;
        worker.land(&harness, a).await;
        let written = worker.written.load(Ordering::SeqCst);
        let expected = if has_overlays(&harness.repo.scratch("overlay")) { 1 } else { 3 };
        assert_eq!(written, expected, "once for three checks");
        // The next commit takes the files over.
        harness.repo.commit("b", Some("main"), &[("gone", ""), ("src/kept", "2\n")]);
        let b = harness.engine.enqueue(&harness.queue, "b", 5).await.unwrap().entry;
        worker.land(&harness, b).await;
        assert_eq!(worker.written.load(Ordering::SeqCst), 2 * written);
        assert_eq!(harness.state().await.tally.flaky, 0);
        drop(worker);
        let left = std::fs::read_dir(crate::proof::checks_directory(&harness.repo)).unwrap().count();
        assert_eq!(left, 0, "no files of checks are left");
    });
}

fn own_program() {
    run(async {
        let command = "[[check]]\nname = \"own\"\ncommand = [\"./check.sh\"]\n";
        let harness = Harness::with(|_| command.to_owned()).await;
        let script = "#!/bin/sh\necho x > written && cat written && rm check.sh\n";
        let a = harness.add("a", &[("check.sh", script)]).await;
        Worker::new(&harness).land(&harness, a).await;
    });
}

/// Fails unless the protected files are as the change expects them, and writes to them.
const RULES: &str = "test \"$(cat ci/rule 2>/dev/null; ls ci)\" = \"$(cat expected)\" \
    && echo x > ci/rule && touch ci/dirt && rm ci/other";

fn protected_files() {
    run(async {
        let checks = ["one", "two", "three"].map(|name| (name, RULES));
        let mut harness = Harness::with(|_| format!("protected = [\"ci/rule\"]\n{}", config(&checks))).await;
        harness.accept_foreign().await;
        let base = [("ci/rule", "base\n"), ("ci/other", "1\n")];
        harness.first = harness.repo.commit("main", None, &base);
        let worker = Worker::new(&harness);
        // Without the rule, and with a configuration that protects nothing: both hold after it has landed.
        let unprotected = config(&checks);
        let files =
            [("ci/rule", ""), ("expected", "base\nother\nrule\n"), (CONFIG_PATH, unprotected.as_str())];
        let a = harness.add("a", &files).await;
        worker.land(&harness, a).await;
        let written = worker.written.load(Ordering::SeqCst);
        let expected = if has_overlays(&harness.repo.scratch("overlay")) { 1 } else { 3 };
        assert_eq!(written, expected, "once for three checks");
        // The next commit takes the files over, without the base's rule.
        harness.repo.commit("b", Some("main"), &[("expected", "other\n")]);
        let b = harness.engine.enqueue(&harness.queue, "b", 5).await.unwrap().entry;
        worker.land(&harness, b).await;
        assert_eq!(worker.written.load(Ordering::SeqCst), 2 * written);
        assert_eq!(harness.state().await.tally.flaky, 0);
    });
}
