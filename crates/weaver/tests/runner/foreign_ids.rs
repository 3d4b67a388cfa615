//! Ids that another client chose (boto3) are shown as it wrote them, on every surface: API, event stream,
//! command line, pages, audit journal, quarantine, and the logs of server and runners. The number by which
//! Weaver knows such a task inside appears nowhere.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use weaver::core::id::TaskId;

use crate::foreign::Seeds;
use crate::harness::{NAMESPACE, until};
use crate::support::Run;

/// The prompts, and what their agent does: the prompt says it. The ids are as awkward as a name may be.
const LEASED: &str = "job/leased 1";
const DONE: &str = "job-done";
const FAILED: &str = "job-failed";
const HELD: &str = "job-held";
const BEHIND: &str = "job-behind";
const DIRECT: &str = "job-direct";
const NEWER: &str = "job-newer";
const BROKEN: &str = "job-broken";
const ALL: [&str; 8] = [LEASED, DONE, FAILED, HELD, BEHIND, DIRECT, NEWER, BROKEN];

/// Fails, waits to be killed, or prints the id it is given.
const AGENT: &str = "read -r prompt || true
case $prompt in
  fail) echo \"the log of $WEAVER_TASK_ID\"; exit 3 ;;
  hold) echo begun > begun; sleep 1000 ;;
  *) echo \"the answer of $WEAVER_TASK_ID\" ;;
esac";

/// All that was said, by whom.
struct Surfaces(Vec<(String, String)>);

impl Surfaces {
    fn add(&mut self, surface: impl Into<String>, said: &str) {
        self.0.push((surface.into(), said.to_owned()));
    }

    /// What a surface said.
    fn of(&self, surface: &str) -> &str {
        let said = self.0.iter().find(|(name, _)| name == surface);
        &said.unwrap_or_else(|| panic!("no surface {surface}")).1
    }

    #[track_caller]
    fn assert_shows(&self, surface: &str, words: &[&str]) {
        let said = self.of(surface);
        for words in words {
            assert!(said.contains(words), "{surface} shows no `{words}`:\n{said}");
        }
    }
}

/// A process whose log is in a file; killed if a test ends before it does.
struct Logged(Child);

impl Logged {
    /// Started, and ready when it prints this.
    fn start(command: &mut Command, log: File, ready: &str) -> (Self, String) {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut said = String::new();
        while !said.contains(ready) {
            let line = lines.next().and_then(Result::ok);
            said += &(line.unwrap_or_else(|| panic!("it has ended: {said}")) + "\n");
        }
        // The pipe stays open: its writer must not fail.
        std::mem::forget(lines);
        (Self(child), said)
    }

    fn stop(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        assert!(sent.expect("there is a `kill`").success());
        self.0.wait().expect("it ends");
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It may have ended already.
        let _ = self.0.wait();
    }
}

/// A server on tables that another client writes to, and its surfaces.
struct Site {
    seeds: Seeds,
    address: String,
    token: String,
    server: Option<Logged>,
    surfaces: Surfaces,
}

impl Site {
    fn start() -> Self {
        let seeds = Seeds::new("ids");
        Run::of(&mut seeds.command(&format!("store init --store {}", seeds.url()))).succeeded();
        let log = File::create(seeds.place.path("server.log")).expect("a test can make files");
        let mut command =
            seeds.command(&format!("serve --listen 127.0.0.1:0 --log info --store {}", seeds.url()));
        let (server, banner) = Logged::start(&mut command, log, "Ctrl-C");
        let address = banner.lines().next().and_then(|line| line.strip_prefix("Weaver listens on "));
        let address = address.expect("it says where it listens").to_owned();
        let mut token = seeds.command("token");
        let token = Run::of(token.env("WEAVER_SERVER", &address)).succeeded().trim().to_owned();
        Self { seeds, address, token, server: Some(server), surfaces: Surfaces(Vec::new()) }
    }

    /// A command of the command line; also its error messages are a surface.
    fn cli(&mut self, arguments: &[&str]) -> Run {
        let mut command = self.seeds.command("");
        let run = Run::of(command.args(arguments).env("WEAVER_SERVER", &self.address));
        self.surfaces.add(format!("weaver {}", arguments.join(" ")), &format!("{}{}", run.out, run.errors));
        run
    }

    /// Both as a table and as JSON.
    fn cli_twice(&mut self, arguments: &[&str]) {
        self.cli(arguments);
        self.cli(&[arguments, &["--output", "json"]].concat());
    }

    fn curl(&self, path: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "30", "-H", &format!("Authorization: Bearer {}", self.token)]);
        command.arg(format!("{}{path}", self.address));
        command
    }

    fn get(&mut self, path: &str) -> String {
        let run = Run::of(&mut self.curl(path)).succeeded();
        self.surfaces.add(format!("GET {path}"), &run);
        run
    }

    fn post(&mut self, path: &str, body: &Value) -> Value {
        let mut command = self.curl(path);
        command.args(["-H", "Content-Type: application/json", "--data-binary", &body.to_string()]);
        let said = Run::of(&mut command).succeeded();
        self.surfaces.add(format!("POST {path}"), &said);
        serde_json::from_str(&said).unwrap_or(Value::Null)
    }

    fn page(&mut self, path: &str) {
        let jar = self.seeds.place.path("cookies");
        let mut command = Command::new("curl");
        command
            .args(["-sS", "-f", "--max-time", "30", "-b"])
            .arg(&jar)
            .arg(format!("{}{path}", self.address));
        let said = Run::of(&mut command).succeeded();
        self.surfaces.add(format!("page {path}"), &said);
    }

    fn log_in(&self) {
        let jar = self.seeds.place.path("cookies");
        let mut command = Command::new("curl");
        command.args(["-sS", "-f", "--max-time", "30", "-c"]).arg(&jar);
        command.args(["-H", &format!("Origin: {}", self.address), "--data-urlencode"]);
        command.arg(format!("token={}", self.token)).arg(format!("{}/login", self.address));
        Run::of(&mut command).succeeded();
    }

    fn runner(&self, name: &str, source: &str) -> Logged {
        let log = File::create(self.seeds.place.path(&format!("{name}.log"))).expect("a test can make files");
        let flags = format!("--name {name} --project-root project -- sh -e agent.sh");
        let mut command = self.seeds.command(&format!("runner --log info {source} {flags}"));
        Logged::start(command.env("WEAVER_RUNNER_POLL", "100ms"), log, "stop       Ctrl-C").0
    }

    fn put(&self, id: &str, session: &str, prompt: &str) {
        self.seeds.queue(&format!("put('{id}', '{session}', now, '{prompt}')"));
    }

    fn wait_for(&self, id: &str, status: &str) {
        let wanted = format!("{status}\n");
        until(&format!("{id} is {status}"), || self.seeds.queue(&format!("print(status('{id}'))")) == wanted);
    }

    fn add_file(&mut self, name: &str) {
        let said = self.seeds.place.read(name);
        self.surfaces.add(name, &said);
    }
}

/// An id as part of a path.
fn in_path(id: &str) -> String {
    id.replace('/', "%2F").replace(' ', "%20")
}

/// A worker of another language, over HTTP.
fn work_by_hand(site: &mut Site) {
    site.put(LEASED, "by-hand", "x");
    let token = "0123456789abcdef0123456789abcdef";
    let wanted = json!({
        "namespace": NAMESPACE, "types": ["prompt"], "worker": "by-hand", "token": token, "wait_ms": 20_000,
    });
    let leased = site.post("/api/v1/work/lease", &wanted);
    let lease = &leased["tasks"][0]["lease"];
    assert_eq!(lease["id"], LEASED, "{leased}");
    let renewed = site.post("/api/v1/work/renew", &json!({ "renewals": [{ "lease": lease }] }));
    assert_eq!(renewed["results"], json!(["extended"]), "the id that it was given is the one it sends");
    let append = |stream: String, lease: &Value| {
        let entries = ["a line"];
        let append = json!({ "namespace": NAMESPACE, "stream": stream, "entries": entries, "lease": lease });
        json!({ "appends": [append] })
    };
    let appended = site.post("/api/v1/work/append", &append(format!("task/{LEASED}/1"), lease));
    assert_eq!(appended, Value::Null, "204");
    let refused = site.post("/api/v1/work/append", &append(format!("task/{DONE}/1"), lease));
    assert_eq!(refused["code"], "lease_of_another_attempt", "{refused}");
    let mut forged = lease.clone();
    forged["attempt"] = json!(2);
    site.post("/api/v1/work/renew", &json!({ "renewals": [{ "lease": forged }] }));
    site.get(&format!("/api/v1/tasks/{}/logs?namespace={NAMESPACE}", in_path(LEASED)));
    let end = json!({ "ends": [{ "lease": lease, "outcome": "succeeded" }] });
    let ended = site.post("/api/v1/work/finish", &end);
    assert_eq!(ended["results"][0]["status"], "recorded", "{ended}");
}

/// Prompts that runners run: over HTTP, and on the store itself.
fn work_by_runners(site: &mut Site) {
    site.seeds.agent(AGENT);
    site.seeds.pipe("begun");
    site.put(DONE, "one", "answer");
    site.put(FAILED, "two", "fail");
    let runner = site.runner("remote", &format!("--server {}", site.address));
    site.wait_for(DONE, "COMPLETE");
    site.wait_for(FAILED, "ERROR");
    site.put(HELD, "three", "hold");
    assert_eq!(site.seeds.place.read("project/begun"), "begun\n");
    site.put(BEHIND, "three", "answer");
    site.cli_twice(&["tasks", "explain", HELD]);
    site.cli_twice(&["tasks", "explain", BEHIND]);
    site.get(&format!("/api/v1/tasks/{BEHIND}/explain?namespace={NAMESPACE}"));
    site.page(&format!("/tasks/{HELD}?namespace={NAMESPACE}"));
    site.page(&format!("/tasks/{BEHIND}?namespace={NAMESPACE}"));
    site.page(&format!("/workers?namespace={NAMESPACE}"));
    site.cli_twice(&["tasks", "cancel", HELD]);
    site.wait_for(BEHIND, "COMPLETE");
    runner.stop();
    let runner = site.runner("direct", &format!("--store {}", site.seeds.url()));
    site.put(DIRECT, "four", "fail");
    site.wait_for(DIRECT, "ERROR");
    runner.stop();
}

/// Items that this version cannot read.
fn bad_items(site: &mut Site) {
    site.seeds.queue(&format!(
        "
for task_id, name, value in [('{NEWER}', 'format', {{'N': '99'}}), ('{BROKEN}', 'prompt', {{'N': '7'}})]:
    put(task_id, 'five', now, 'x')
    client.update_item(TableName='pm-runner-queue', Key=where(task_id), UpdateExpression='SET #n = :v',
        ExpressionAttributeNames={{'#n': name}}, ExpressionAttributeValues={{':v': value}})
"
    ));
    for id in [NEWER, BROKEN] {
        site.cli(&["tasks", "show", id]).failed(6, &[id, "cannot be read"]);
        site.cli(&["tasks", "cancel", id]).failed(6, &[id]);
    }
    site.page(&format!("/quarantine?namespace={NAMESPACE}"));
    site.cli_twice(&["tasks", "quarantine"]);
    site.get(&format!("/api/v1/quarantine?namespace={NAMESPACE}"));
    site.get(&format!("/api/v1/quarantine?namespace={NAMESPACE}&limit=1"));
    let check = format!("store check --store {}", site.seeds.url());
    let check = Run::of(&mut site.seeds.command(&check));
    site.surfaces.add("weaver store check", &format!("{}{}", check.out, check.errors));
    site.cli(&["tasks", "purge", BROKEN, "--yes", "--output", "json"]).succeeded();
    site.add_file(&format!("weaver-task-{BROKEN}.json"));
}

/// Everything that shows tasks that have ended.
fn look_around(site: &mut Site) {
    for id in [LEASED, DONE, FAILED] {
        for command in ["show", "explain", "logs", "wait"] {
            site.cli_twice(&["tasks", command, id]);
        }
        let (id, query) = (in_path(id), format!("namespace={NAMESPACE}"));
        for part in ["", "/explain", "/history", "/logs", "/wait", "/raw"] {
            site.get(&format!("/api/v1/tasks/{id}{part}?{query}"));
        }
        for part in ["", "/log", "/log.txt"] {
            site.page(&format!("/tasks/{id}{part}?{query}"));
        }
    }
    // By the number, which is accepted: the answers show the text.
    let number = TaskId::of_text(DONE).to_string();
    for (surface, said) in [
        ("by number", Run::of(&mut site.curl(&format!("/api/v1/tasks/{number}?namespace={NAMESPACE}")))),
        ("refused by number", {
            let mut command = site.curl(&format!("/api/v1/tasks/{number}/cancel?namespace={NAMESPACE}"));
            Run::of(command.args(["-X", "POST"]))
        }),
    ] {
        site.surfaces.add(surface, &said.succeeded());
    }
    site.cli(&["tasks", "cancel", DONE]).failed(6, &[DONE]);
    site.cli_twice(&["tasks", "retry", FAILED]);
    site.post(&format!("/api/v1/bulk/retry?namespace={NAMESPACE}&state=dead"), &json!({}));
    site.post(&format!("/api/v1/bulk/cancel?namespace={NAMESPACE}"), &json!({}));
    site.cli_twice(&["tasks", "list"]);
    site.cli_twice(&["tasks", "groups"]);
    site.cli_twice(&["workers", "list"]);
    for path in ["tasks", "groups", "counts", "queues", "workers", "audit"] {
        site.get(&format!("/api/v1/{path}?namespace={NAMESPACE}"));
    }
    site.get("/metrics");
    for path in ["/", "/tasks", "/groups", "/audit", "/queues"] {
        site.page(&format!("{path}?namespace={NAMESPACE}"));
    }
    site.page(&format!("/group?id=g&namespace={NAMESPACE}"));
    let tasks: Value =
        serde_json::from_str(site.surfaces.of(&format!("GET /api/v1/tasks?namespace={NAMESPACE}")))
            .expect("it is JSON");
    let retry = tasks["items"].as_array().expect("a list").iter().find(|task| task["retry_of"] == FAILED);
    let retry = retry.unwrap_or_else(|| panic!("no retry of {FAILED}: {tasks}"))["id"].clone();
    let retry = retry.as_str().expect("an id");
    site.cli(&["tasks", "show", retry]).succeeded();
    site.page(&format!("/tasks/{retry}?namespace={NAMESPACE}"));
    site.surfaces.assert_shows(&format!("weaver tasks show {retry}"), &[FAILED]);
    site.surfaces
        .assert_shows(&format!("page /tasks/{retry}?namespace={NAMESPACE}"), &["a retry of", FAILED]);
}

#[test]
fn the_id_of_another_clients_task_is_shown_as_written_on_every_surface() {
    let mut site = Site::start();
    site.log_in();
    let events = File::create(site.seeds.place.path("events")).expect("a test can make files");
    let mut stream = site.curl(&format!("/api/v1/events?namespace={NAMESPACE}"));
    let stream =
        Logged(stream.args(["-N", "--max-time", "600"]).stdout(events).spawn().expect("curl starts"));
    work_by_hand(&mut site);
    work_by_runners(&mut site);
    bad_items(&mut site);
    look_around(&mut site);
    until("the events have arrived", || site.seeds.place.read("events").contains(FAILED));
    drop(stream);
    site.server.take().expect("it runs").stop();
    for file in ["events", "server.log", "remote.log", "direct.log"] {
        site.add_file(file);
    }
    for (surface, words) in [
        ("remote.log", [DONE, FAILED].as_slice()),
        ("direct.log", &[DIRECT]),
        ("server.log", &[NEWER, BROKEN]),
        ("events", &[LEASED, DONE, HELD]),
        (&format!("GET /api/v1/audit?namespace={NAMESPACE}"), &[LEASED, HELD, FAILED, BROKEN]),
        (&format!("GET /api/v1/quarantine?namespace={NAMESPACE}"), &[NEWER, BROKEN]),
        (&format!("page /audit?namespace={NAMESPACE}"), &[HELD, FAILED]),
        (&format!("page /quarantine?namespace={NAMESPACE}"), &[NEWER, BROKEN]),
        (&format!("page /tasks/{BEHIND}?namespace={NAMESPACE}"), &[HELD]),
        (&format!("weaver tasks explain {BEHIND}"), &[HELD]),
        ("weaver store check", &[NEWER, BROKEN]),
        ("by number", &[DONE]),
        ("refused by number", &[DONE]),
    ] {
        site.surfaces.assert_shows(surface, words);
    }
    for id in ALL {
        let number = TaskId::of_text(id).to_string();
        for (surface, said) in &site.surfaces.0 {
            assert!(!said.contains(&number), "{surface} shows {number}, not {id}:\n{said}");
        }
    }
}
