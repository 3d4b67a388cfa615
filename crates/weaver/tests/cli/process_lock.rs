//! Processes that are killed or stopped while they run tasks, with the default lease of 30 s.

#[cfg(feature = "postgres")]
use std::process::{Child, Command, Stdio};

use weaver::core::lease::LEASE_TTL_DEFAULT;
use weaver::core::task::AttemptOutcome;
use weaver_api::Task;

use crate::merge;
use crate::server::Server;
use crate::support::{Place, Run, shell};

/// What says that a lease did not expire: the end of its process was seen.
const SEEN: &str = "ended without a report";

fn show(server: &Server, place: &Place, id: &str) -> Task {
    let shown = server.run(place, &format!("tasks show {id} --output json")).json();
    serde_json::from_value(shown).expect("a task")
}

/// Waits until the task is as wanted. Each look takes a process.
fn until(server: &Server, place: &Place, id: &str, is_so: impl Fn(&Task) -> bool) -> Task {
    loop {
        let task = show(server, place, id);
        if is_so(&task) {
            return task;
        }
    }
}

/// Kills a server once its check has written `$WEAVER_CACHE/ran`, and starts another one. Returns the other
/// one and the check's task when the change has landed.
fn kill_during(place: &Place, check: &str) -> (Server, Task) {
    merge::repository(place, &["one"]);
    let cache = place.path("cache");
    place.write("weaver.toml", &format!("[confine]\ncache = \"{}\"\n", cache.display()));
    let script = format!(
        "printf '[[check]]\\nname = \"unit\"\\ncommand = [\"sh\", \"-c\", \"{check}\"]\\n' \
         > work/.weaver/merge.toml && git -C work switch -q main && git -C work commit -q -a -m check && \
         git -C work push -q ../project.git main"
    );
    Run::of(merge::git(&mut shell(place, &script))).succeeded();
    let server = Server::start(place, "serve");
    server.run(place, "merge add-repo project.git").succeeded();
    server.run(place, "merge enqueue --head one").succeeded();
    let has_run = || {
        let mut entries = std::fs::read_dir(&cache).into_iter().flatten().flatten();
        entries.any(|entry| entry.path().join("ran").exists())
    };
    while !has_run() {
        std::thread::yield_now();
    }
    server.kill();
    let server = Server::start(place, "serve");
    server.run(place, "merge wait 1").succeeded();
    let listed = server.run(place, "tasks list --queue merge --output json").json();
    let id = listed["items"][0]["id"].as_str().expect("the check").to_owned();
    let task = show(&server, place, &id);
    (server, task)
}

#[test]
fn a_check_of_a_killed_server_runs_again_at_once_and_its_change_lands() {
    let place = Place::new();
    // The first run of the check never ends.
    let check = "test -e $WEAVER_CACHE/ran || { touch $WEAVER_CACHE/ran; exec sleep 1000; }";
    let (server, task) = kill_during(&place, check);
    let [lost, passed] = &task.attempts[..] else { panic!("{task:?}") };
    assert_eq!((lost.outcome, passed.outcome), (AttemptOutcome::Lost, AttemptOutcome::Succeeded));
    assert!(lost.error.as_deref().is_some_and(|error| error.contains(SEEN)), "{task:?}");
    assert_eq!((task.losses, task.failures), (1, 0), "charged as a lease that expired");
    let between = passed.ended_at.since(lost.started_at.expect("it ran"));
    assert!(between < LEASE_TTL_DEFAULT / 2, "{between:?}");
    assert_eq!(server.stop().code, Some(0));
    let locks = std::fs::read_dir(place.path("state/weaver/workers")).expect("it is there").count();
    assert_eq!(locks, 0, "neither of the killed server nor of the other one");
}

#[test]
fn a_check_of_a_killed_server_runs_again_only_when_its_processes_are_gone() {
    let place = Place::new();
    // The first run ignores SIGTERM, so that the guard ends it later; a second one beside it would fail. What
    // the shell says about the signal would end it: nothing reads it any more.
    let check = "exec 2>/dev/null 9>$WEAVER_CACHE/lock; flock -n 9 || exit 1; test -e $WEAVER_CACHE/ran || \
        { trap : TERM; touch $WEAVER_CACHE/ran; while :; do sleep 1; done; }";
    let (server, task) = kill_during(&place, check);
    assert_eq!((task.losses, task.executions), (1, 2), "{task:?}");
    assert_eq!(server.stop().code, Some(0));
}

/// A worker in a place, with a task `sleep` of its own; killed if the test ends before it does.
#[cfg(feature = "postgres")]
struct Sleeper {
    child: Child,
    task: String,
}

#[cfg(feature = "postgres")]
impl Sleeper {
    fn start(place: &Place, server: &Server, url: &str, name: &str) -> Self {
        let mut command = place.command(&format!("worker --concurrency 1 --name {name} --log warn --store"));
        let child = command.arg(url).stdout(Stdio::null()).spawn().expect("the binary starts");
        let enqueued = server.run(place, "enqueue exec {\"command\":\"sleep\"}").succeeded();
        let task = enqueued.trim().to_owned();
        let sleeper = Self { child, task };
        until(server, place, &sleeper.task, |task| {
            task.lease.as_ref().is_some_and(|lease| lease.worker == name)
        });
        sleeper
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.expect("there is a `kill`").success());
    }
}

#[cfg(feature = "postgres")]
impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended already.
        let _ = self.child.wait();
    }
}

#[cfg(feature = "postgres")]
#[test]
fn a_stopped_worker_keeps_its_lease_and_a_killed_one_loses_it_before_it_expires() {
    let database = crate::postgres::Database::new("process_lock");
    let place = Place::new();
    let root = place.path("commands");
    std::fs::create_dir(&root).expect("it is new");
    let policy = format!(
        "[handlers.exec]\nworking_root = \"{}\"\n\
         [handlers.exec.commands.sleep]\nprogram = \"/bin/sleep\"\nargs = [\"1000\"]\n",
        root.display()
    );
    place.write("weaver.toml", &policy);
    let mut serve = place.command("serve --queues nothing --listen 127.0.0.1:0 --log warn --store");
    let server = Server::spawn(serve.arg(database.url()));
    let stopped = Sleeper::start(&place, &server, &database.url(), "stopped");
    let killed = Sleeper::start(&place, &server, &database.url(), "killed");
    stopped.signal("-STOP");
    killed.signal("-KILL");
    let lost = until(&server, &place, &killed.task, |task| task.losses == 1);
    let error = lost.attempts.first().and_then(|attempt| attempt.error.as_deref());
    assert!(error.is_some_and(|error| error.contains(SEEN)), "{lost:?}");
    // The same look at all processes saw this one too. On a slow machine its lease may have expired since.
    let kept = show(&server, &place, &stopped.task);
    assert!(!format!("{kept:?}").contains(SEEN), "{kept:?}");
    stopped.signal("-KILL");
    until(&server, &place, &stopped.task, |task| task.losses == 1);
    assert_eq!(server.stop().code, Some(0));
}
