//! Servers on PostgreSQL: two nodes on one schema, and the commands that look after it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use weaver_testkit::services::postgres::Shared;

use crate::merge;
use crate::support::{Place, Run, shell};

/// A schema for one test, on a server that all tests share.
pub(crate) struct Database {
    server: Shared,
    schema: String,
}

impl Database {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            server: Shared::server(),
            schema: format!("cli_{name}_{}", weaver_testkit::services::process_key()),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}", self.server.url(), self.schema)
    }
}

/// Where a node has the public keys of others.
const TRUSTED: &str = "others.pub";

/// A node; killed if a test ends before it does.
pub(crate) struct Node {
    child: Child,
    address: String,
    pub(crate) place: Place,
}

impl Node {
    pub(crate) fn start(database: &Database) -> Self {
        let place = Place::new();
        // The keys of other nodes whose landings count here; none yet.
        place.write(TRUSTED, "");
        place.write("weaver.toml", &format!("[merge]\ntrusted_keys = \"{TRUSTED}\"\n"));
        let mut command = place.command("serve --listen 127.0.0.1:0 --log warn --store");
        let mut child =
            command.arg(database.url()).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
        let line = lines.next().and_then(Result::ok).unwrap_or_default();
        let address = line.strip_prefix("Weaver listens on ").expect("it answers").to_owned();
        Self { child, address, place }
    }

    pub(crate) fn run(&self, database: &Database, arguments: &str) -> Run {
        let mut command = self.place.command(arguments);
        Run::of(command.env("WEAVER_SERVER", &self.address).env("WEAVER_STORE", database.url()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended already.
        let _ = self.child.wait();
    }
}

#[test]
fn two_nodes_serve_one_schema_and_what_one_takes_the_other_shows() {
    let database = Database::new("nodes");
    let (one, other) = (Node::start(&database), Node::start(&database));
    let id = one.run(&database, "enqueue unhandled {\"a\":1} --queue mail").succeeded();
    let listed = other.run(&database, "tasks list --output json").json();
    assert_eq!(listed["items"][0]["id"], id.trim());
    other.run(&database, &format!("tasks cancel {}", id.trim())).succeeded();
    one.run(&database, &format!("tasks wait {}", id.trim())).failed(7, &["is cancelled"]);
}

#[test]
fn two_nodes_work_on_one_merge_queue_and_every_change_lands_once() {
    let database = Database::new("merge");
    let (one, other) = (Node::start(&database), Node::start(&database));
    let branches = ["a", "b", "c", "d"];
    merge::repository(&one.place, &branches);
    one.run(&database, "merge add-repo project.git").succeeded();
    for (branch, node) in branches.into_iter().zip([&one, &other].into_iter().cycle()) {
        node.run(&database, &format!("merge enqueue --head {branch}")).succeeded();
    }
    other.run(&database, "merge wait").succeeded();
    let status = one.run(&database, "merge status --output json").json();
    assert_eq!(status["queue"]["stats"]["landed"], 4, "{status}");
    // Each signed what it landed, with a key of its own; the queue was made by the first.
    let stranger = other.run(&database, "merge verify --all");
    assert!(
        stranger.code == Some(5) && stranger.out.contains("not among the trusted keys"),
        "{}",
        stranger.out
    );
    for (node, from) in [(&one, &other), (&other, &one)] {
        let keys = from.run(&database, "merge key show").succeeded();
        node.place.write(TRUSTED, &keys);
    }
    for entry in 1..=4 {
        other.run(&database, &format!("merge verify {entry}")).succeeded();
        one.run(&database, &format!("merge verify {entry}")).succeeded();
    }
    other.run(&database, "merge verify --all").succeeded();
    let count = "git --git-dir project.git rev-list --count --first-parent main";
    assert_eq!(Run::of(merge::git(&mut shell(&one.place, count))).succeeded().trim(), "5");
}

#[test]
fn a_schema_is_migrated_once_and_a_dry_run_changes_nothing() {
    let database = Database::new("migrate");
    let place = Place::new();
    let migrate = |arguments: &str| {
        Run::of(place.command(&format!("store migrate {arguments}")).arg("--store").arg(database.url()))
    };
    for _ in 0..2 {
        assert!(
            migrate("--dry-run").succeeded().contains("CREATE TABLE"),
            "a dry run prints what it would do"
        );
    }
    assert!(migrate("").succeeded().contains("step 1"));
    assert!(migrate("").succeeded().contains("nothing to do"));
}

#[test]
fn commands_for_a_directory_say_what_to_use_instead_and_show_no_password() {
    let place = Place::new();
    for command in ["store export", "store compact", "store backup ./b"] {
        let mut command = place.command(command);
        let run = Run::of(command.args(["--store", "postgres://ada:s3cret@localhost:1/jobs"]));
        assert!(!run.errors.contains("s3cret"), "{}", run.errors);
        run.failed(2, &["PostgreSQL's own tools", "pg_dump"]);
    }
}

#[test]
fn doctor_asks_the_server_and_says_what_it_found() {
    let database = Database::new("doctor");
    let place = Place::new();
    let doctor = |url: &str| Run::of(place.command("doctor --store").arg(url));
    assert!(doctor(&database.url()).succeeded().contains("has no schema yet"));
    Run::of(place.command("store migrate --store").arg(database.url())).succeeded();
    assert!(doctor(&database.url()).succeeded().contains("reachable: schema 1"));
    let unreachable = doctor("postgres://weaver:secret@127.0.0.1:1/jobs");
    assert_eq!(unreachable.code, Some(1));
    assert!(unreachable.out.contains("cannot connect to PostgreSQL") && !unreachable.out.contains("secret"));
}

impl Database {
    /// Writes by hand, past every trigger: what another program, or a broken disk, may leave.
    pub(crate) fn by_hand(&self, statement: &str) {
        let guards = |verb: &str| {
            let tables = ["tasks"];
            tables.map(|table| format!("ALTER TABLE weaver.{table} {verb} TRIGGER USER")).join("; ")
        };
        let statement = format!("{}; {statement}; {}", guards("DISABLE"), guards("ENABLE"));
        let statement = statement.replace("weaver.", &format!("{}.", self.schema));
        let set = Command::new("psql").args(["-q", "-c", &statement]).arg(self.server.url()).status();
        assert!(set.expect("psql starts: apt-get install postgresql-client").success());
    }
}

#[test]
fn a_check_of_a_database_in_use_names_bad_rows_and_ends_as_for_damage() {
    let database = Database::new("check");
    let node = Node::start(&database);
    let run = |arguments: &str| node.run(&database, arguments);
    let id = run("enqueue unhandled --queue mail --serial-key k").succeeded().trim().to_owned();
    run("enqueue unhandled").succeeded();
    let sound = run("store check").succeeded();
    assert!(sound.contains("2 tasks") && sound.contains("no problems found"), "{sound}");
    let doctor = run("doctor").succeeded();
    assert!(doctor.contains("no unreadable records"), "{doctor}");

    database.by_hand(&format!("UPDATE weaver.tasks SET labels = '7' WHERE id = {id}"));
    let definition =
        "INSERT INTO weaver.job_definitions (namespace, kind, id, version, created_at, updated_at, body)
        VALUES ('default', 'job_definition', 'nightly', 1, now(), now(), 'no schedule')";
    database.by_hand(definition);
    let damaged = run("store check");
    assert_eq!(damaged.code, Some(5), "{}{}", damaged.out, damaged.errors);
    for text in [
        format!("task default/{id} (PENDING): it cannot be decoded"),
        "document default/job_definition/nightly: it cannot be decoded".to_owned(),
        "weaver tasks purge ID --yes".to_owned(),
    ] {
        assert!(damaged.out.contains(&text), "{text}\n{}", damaged.out);
    }
    let report = run("store check --output json");
    assert_eq!(report.code, Some(5));
    let report: serde_json::Value = serde_json::from_str(&report.out).expect("JSON");
    assert_eq!(report["unreadable"][0]["holds"]["serial_key"], "k", "{report}");
    let doctor = run("doctor").succeeded();
    assert!(doctor.contains("1 task, 1 document unreadable"), "{doctor}");
}

#[test]
fn doctor_reports_guards_that_are_disabled_or_missing_with_what_enables_them() {
    let database = Database::new("guards");
    let place = Place::new();
    let doctor = || Run::of(place.command("doctor --store").arg(database.url()));
    let run = |statements: &str| {
        let psql = Command::new("psql").args(["-q", "-c", statements]).arg(database.server.url()).status();
        assert!(psql.expect("psql starts: apt-get install postgresql-client").success(), "{statements}");
    };
    Run::of(place.command("store migrate --store").arg(database.url())).succeeded();
    assert!(doctor().succeeded().contains("all guard triggers exist"));
    let schema = &database.schema;
    run(&format!("ALTER TABLE {schema}.leases DISABLE TRIGGER guard_write"));
    run(&format!("ALTER TABLE {schema}.audit ENABLE TRIGGER guard_update"));
    run(&format!("DROP TRIGGER guard_write ON {schema}.ended"));
    let report = doctor().succeeded();
    let enable = format!("ALTER TABLE {schema}.leases ENABLE ALWAYS TRIGGER guard_write;");
    let create = "CREATE TRIGGER guard_write BEFORE INSERT";
    for words in ["trigger guard_write of leases is disabled", "trigger guard_update of audit is disabled"] {
        assert!(report.contains(words), "{report}");
    }
    assert!(
        report.contains("trigger guard_write of ended is missing") && report.contains(create),
        "{report}"
    );
    assert!(report.contains(&enable), "{report}");
    // What it says to do is enough.
    for trigger in weaver::postgres::guard_triggers(schema) {
        if trigger.name == "guard_write" && trigger.table == "ended" {
            run(&trigger.create);
        }
        run(&trigger.enable);
    }
    assert!(doctor().succeeded().contains("all guard triggers exist"));
}

/// What `/readyz` answers.
fn readiness(node: &Node) -> serde_json::Value {
    let response = Command::new("curl").args(["-s", &format!("{}/readyz", node.address)]).output();
    let response = response.expect("curl starts: apt-get install curl");
    serde_json::from_slice(&response.stdout).expect("it answers JSON")
}

#[test]
fn a_jump_of_the_databases_clock_is_shown_by_readyz() {
    let database = Database::new("clock");
    let node = Node::start(&database);
    assert_eq!(readiness(&node)["clock_jumped"], serde_json::Value::Null);
    let ahead = format!(
        "CREATE OR REPLACE FUNCTION {}.clock() RETURNS timestamptz LANGUAGE sql VOLATILE \
         AS $$SELECT clock_timestamp() + interval '1 hour'$$",
        database.schema
    );
    let set = Command::new("psql").args(["-q", "-c", &ahead]).arg(database.server.url()).status();
    assert!(set.expect("psql starts: apt-get install postgresql-client").success());
    let jumped = readiness(&node);
    let by_ms = jumped["clock_jumped"]["by_ms"].as_i64().unwrap_or_default();
    assert!((3_599_000..=3_601_000).contains(&by_ms), "{jumped}");
    assert_eq!(jumped["status"], "ok", "refusing work would not mend the clock");
}
