//! A repository, a store and queued changes; processes on them; and the invariants checked afterwards.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use weaver_core::name::Namespace;
use weaver_core::ports::TaskQuery;
use weaver_core::task::TaskState;
use weaver_merge::domain::{EntryId, EntryOutcome, MergeQueue, Oid, QueueId, Repository};
use weaver_merge::engine::MergeEngine;
use weaver_merge::forge::git::GitForges;

use crate::child::{self, Orders, When, clock, options};
use crate::proof::{Proof, checks_directory, config, unit};
use crate::repo::Repo;

/// Clock offset of inspections after the processes ran.
const LATER_S: u32 = 3600;

pub(crate) struct World {
    pub(crate) repo: Repo,
    store: String,
    queue: QueueId,
    first: Oid,
    runtime: tokio::runtime::Runtime,
    path: Option<PathBuf>,
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    /// It exited after this many effects.
    Done(u64),
}

impl World {
    /// With the store in a directory, the check `unit` and these changes.
    pub(crate) fn new(changes: &[(&str, &str)]) -> Self {
        Self::with(None, |repo| config(&[("unit", &unit(repo))]), changes)
    }

    pub(crate) fn with(
        store: Option<String>,
        config: impl FnOnce(&Repo) -> String,
        changes: &[(&str, &str)],
    ) -> Self {
        let repo = Repo::new(&[("README", "hello\n")]);
        let first = repo.commit("main", None, &[(".weaver/merge.toml", &config(&repo))]);
        for (branch, file) in changes {
            repo.commit(branch, Some(first.as_str()), &[(file, "1\n")]);
        }
        let store = store.unwrap_or_else(|| repo.scratch("store").to_str().unwrap().to_owned());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let location = repo.path().to_str().unwrap().to_owned();
        let mut world =
            Self { repo, store, queue: QueueId(String::new()), first, runtime: runtime.unwrap(), path: None };
        world.queue = world.inspect(0, async |engine| {
            let repository = Repository { name: "demo".into(), location };
            let queue = engine.add_queue(repository, "main").await.unwrap().id;
            for (branch, _) in changes {
                engine.enqueue(&queue, *branch, 5).await.unwrap();
            }
            queue
        });
        world
    }

    /// Wraps git in a script that ends with `exec $GIT "$@"`.
    pub(crate) fn wrap_git(&mut self, script: &str) {
        let (directory, path) = (self.repo.scratch("bin"), std::env::var("PATH").unwrap());
        let find = |part: &str| Some(PathBuf::from(part).join("git")).filter(|program| program.is_file());
        let git = path.split(':').find_map(find).expect("git is installed: apt-get install git");
        let script = format!("#!/bin/sh\nGIT={}\n{script}\nexec $GIT \"$@\"\n", git.display());
        std::fs::write(directory.join("git"), script).unwrap();
        std::fs::set_permissions(directory.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
        self.path = Some(PathBuf::from(format!("{}:{path}", directory.display())));
    }

    pub(crate) fn orders(&self) -> Orders {
        let (store, checks) = (self.store.clone(), checks_directory(&self.repo));
        let key = self.repo.scratch("key").join("merge.key");
        Orders { store, checks, key, ahead_s: 0, dies: None, without_wakeups: false, removes: None }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.envs(self.path.iter().map(|path| ("PATH", path)));
        command
    }

    pub(crate) fn start(&self, orders: &Orders) -> Child {
        self.command().arg(child::RUN).arg(serde_json::to_string(orders).unwrap()).spawn().unwrap()
    }

    /// Runs a process to its end.
    pub(crate) fn run(&self, orders: &Orders) -> End {
        end(self.start(orders))
    }

    /// Runs a process that is killed at an effect.
    pub(crate) fn run_and_kill(&self, at: u64, when: When) -> End {
        self.run(&Orders { dies: Some((at, when)), ..self.orders() })
    }

    /// Runs a process to the end, ten minutes later: leases of dead processes have expired.
    pub(crate) fn restart(&self) {
        let end = self.run(&Orders { ahead_s: 600, ..self.orders() });
        assert!(matches!(end, End::Done(_)), "{end:?}");
    }

    /// Inspects the store while no process has it open.
    pub(crate) fn inspect<T>(&self, ahead_s: u32, inspect: impl AsyncFnOnce(&MergeEngine) -> T) -> T {
        let clock = clock(ahead_s);
        self.runtime.block_on(async {
            let store = child::open(&self.store, &clock).await;
            let forges = Arc::new(GitForges::new(Arc::clone(&clock)));
            inspect(&MergeEngine::new(store, forges, clock, options(&self.orders().key))).await
        })
    }

    /// Number of tasks: a check run that was requested twice is one task.
    fn tasks(&self) -> usize {
        let clock = clock(LATER_S);
        self.runtime.block_on(async {
            let store = child::open(&self.store, &clock).await;
            let query = TaskQuery { limit: 1000, ..TaskQuery::new(Namespace::default()) };
            store.list_tasks(query).await.unwrap().items.len()
        })
    }

    pub(crate) fn state(&self) -> MergeQueue {
        self.inspect(LATER_S, async |engine| engine.get(&self.queue).await.unwrap().queue)
    }

    /// Orders that remove the queue while a check of it runs.
    pub(crate) fn removal(&self) -> Orders {
        Orders { removes: Some(self.queue.clone()), ..self.orders() }
    }

    /// The queue was removed with what was in it, and nothing is half done.
    pub(crate) fn prove_removed(&self) {
        self.inspect(LATER_S, async |engine| {
            let queue = engine.get(&self.queue).await.unwrap().queue;
            assert!(queue.is_removed(), "{queue:?}");
            assert_eq!((queue.entries.len(), queue.outbox.len(), queue.stopping.len()), (0, 0, 0));
            assert_eq!(engine.queues().await.unwrap(), []);
            for number in 1..queue.next_entry {
                let detail = engine.entry(&self.queue, EntryId(number)).await.unwrap();
                let word = match detail.outcome.unwrap() {
                    EntryOutcome::Landed => "landed",
                    EntryOutcome::Removed(reason) => reason.word(),
                };
                assert!(matches!(word, "landed" | "checks_failed" | "queue_removed"), "{word}");
            }
            let (repo, queue, first) = (&self.repo, &self.queue, &self.first);
            Proof { repo, engine, queue, first }.prove_record(&[]).await;
        });
        assert!(self.open_tasks().is_empty(), "{:?}", self.open_tasks());
    }

    /// States of the tasks that have not ended.
    fn open_tasks(&self) -> Vec<TaskState> {
        let clock = clock(LATER_S);
        self.runtime.block_on(async {
            let store = child::open(&self.store, &clock).await;
            let query = TaskQuery { limit: 1000, ..TaskQuery::new(Namespace::default()) };
            let tasks = store.list_tasks(query).await.unwrap().items;
            tasks.iter().map(|task| task.state).filter(|state| !state.is_terminal()).collect()
        })
    }

    /// Changes named `…bad` were ejected by a check, all others landed, and the invariants hold.
    pub(crate) fn prove_all_done(&self, outsiders: &[Oid]) {
        let (tasks, runs) = (self.tasks(), self.state().tally.runs);
        assert!(tasks as u64 <= runs, "{tasks} tasks for {runs} runs");
        self.inspect(LATER_S, async |engine| {
            let queue = engine.get(&self.queue).await.unwrap().queue;
            assert_eq!((queue.entries.len(), &queue.paused), (0, &None));
            for number in 1..queue.next_entry {
                let detail = engine.entry(&self.queue, EntryId(number)).await.unwrap();
                let is_bad = detail.entry.pull_request.id.ends_with("bad");
                match detail.outcome.unwrap() {
                    EntryOutcome::Landed => assert!(!is_bad),
                    EntryOutcome::Removed(reason) => {
                        assert!(is_bad && reason.word() == "checks_failed", "{reason:?}");
                    }
                }
            }
            let (repo, queue, first) = (&self.repo, &self.queue, &self.first);
            Proof { repo, engine, queue, first }.prove(outsiders).await;
        });
    }
}

pub(crate) fn end(child: Child) -> End {
    let output = child.wait_with_output().unwrap();
    match output.status.signal() {
        Some(9) => End::Killed,
        Some(other) => panic!("signal {other}"),
        None => {
            assert!(output.status.success(), "{:?}", output.status);
            End::Done(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
        }
    }
}
