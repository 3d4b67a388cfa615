//! `weaver store …`: success and failure of each command.

use std::process::Stdio;

use crate::support::{Place, Run};

/// Lines of an export with one document, as small as they come.
const EXPORT: &str = r#"{"weaver_export":{"version":1,"written_at":"2026-01-31T09:30:00.000000Z","in_time_order":true}}
{"document":{"namespace":"default","kind":"settings","id":"one","version":3,"due":null,"updated_at":"2026-01-31T09:30:00.000000Z","body":"{}"}}
{"end":{"lines":2}}
"#;

#[test]
fn init_creates_a_store_once_and_leaves_an_existing_one_unchanged() {
    let place = Place::new();
    assert_eq!(place.run("store init --output json").json()["made"], true);
    assert!(place.path("weaver-data/weaver.redb").exists());
    assert_eq!(place.run("store init --output json").json()["made"], false);
    assert!(place.run("store init").succeeded().contains("already"));
}

#[test]
fn a_missing_store_is_never_created_by_accident() {
    let place = Place::new();
    for command in ["check", "compact", "export", "backup ./copy"] {
        let run = place.run(&format!("store {command} --store ./nowhere"));
        run.failed(3, &["no store in ./nowhere", "next: ", "weaver store init --store ./nowhere"]);
        assert!(!place.path("nowhere").exists(), "{command}");
    }
    assert!(!place.path("copy").exists());
}

#[test]
fn check_of_a_sound_store_finds_no_problems() {
    let place = Place::with_store();
    assert!(place.run("store check").succeeded().contains("no problems found"));
    let report = place.run("store check --output json").json();
    assert_eq!(report["is_clean"], true);
    assert_eq!(report["problems"], serde_json::json!([]));
}

#[test]
fn a_damaged_store_is_refused_by_file_with_the_way_out() {
    let place = Place::with_store();
    place.write("weaver-data/weaver.redb", "this is no store");
    place.run("store check").failed(5, &["weaver-data/weaver.redb is damaged", "restore the latest backup"]);
    std::fs::remove_file(place.path("weaver-data/weaver.redb")).expect("it was there");
    place.run("store check").failed(5, &["weaver-data/weaver.redb is missing", "restore the latest backup"]);
    place.run("store init").failed(5, &["weaver-data/weaver.redb is missing"]);
}

#[test]
fn a_store_of_a_later_version_is_refused_with_what_to_do() {
    let place = Place::with_store();
    place.write("weaver-data/FORMAT", "weaver-embedded 99\n");
    place.run("store check").failed(6, &["format 99", "use the version that wrote it"]);
}

#[test]
fn a_store_in_use_is_refused_with_the_process_that_has_it() {
    let place = Place::with_store();
    let lock =
        std::fs::File::options().write(true).open(place.path("weaver-data/LOCK")).expect("it is there");
    lock.lock().expect("no other process holds it");
    let pid = place.read("weaver-data/LOCK");
    let said = format!("in use by process {}", pid.trim());
    place.run("store compact").failed(4, &["./weaver-data", &said, "stop that process"]);
}

#[test]
fn what_is_no_directory_of_this_machine_is_refused_with_what_would_be() {
    let place = Place::new();
    place.write("file", "");
    place.run("store check --store ./file").failed(2, &["./file is a file", "next: name a directory"]);
    place.run("store check --store memory:").failed(2, &["memory", "next: name a directory"]);
    let build = if cfg!(feature = "postgres") { "pg_dump" } else { "cargo feature `postgres`" };
    place.run("store compact --store postgres://u:secret@h/db").failed(2, &["PostgreSQL", build]);
    let build =
        if cfg!(feature = "dynamodb") { "next: name a directory" } else { "cargo feature `dynamodb`" };
    place.run("store compact --store dynamodb://h").failed(2, &["DynamoDB", build]);
    place.run("store check --store redis://h").failed(2, &["redis", "postgres://"]);
}

#[test]
fn compact_says_how_much_it_freed() {
    let place = Place::with_store();
    let answer = place.run("store compact --output json").json();
    let bytes = |name: &str| answer[name].as_u64().expect("it is a number");
    assert_eq!(bytes("bytes_before"), bytes("bytes_after") + bytes("bytes_freed"));
    assert!(place.run("store compact").succeeded().contains("freed"));
}

#[test]
fn a_backup_is_a_store_with_the_same_contents_and_never_replaces_another() {
    let place = Place::new();
    place.write("tasks.jsonl", EXPORT);
    place.run("store import tasks.jsonl").succeeded();
    let answer = place.run("store backup ./copy --output json").json();
    assert!(answer["rows"].as_u64() > Some(0), "{answer}");
    place.run("store check --store ./copy").succeeded();
    assert!(place.run("store export --store ./copy").succeeded().contains("\"settings\""));
    place
        .run("store backup ./copy")
        .failed(6, &["./copy already contains a store", "choose an empty directory"]);
}

#[test]
fn what_is_exported_is_imported_once() {
    let place = Place::new();
    place.write("in.jsonl", EXPORT);
    assert_eq!(place.run("store import in.jsonl --output json").json()["added"], 1);
    assert_eq!(place.run("store import in.jsonl --output json").json()["added"], 0);
    let answer = place.run("store export out.jsonl --output json").json();
    assert_eq!(answer["lines"], 3);
    let exported = place.read("out.jsonl");
    assert_eq!(exported.lines().count(), 3);
    assert!(!place.path("out.jsonl.part").exists());
    assert_eq!(place.run("store export").succeeded().lines().nth(1), exported.lines().nth(1));
}

#[test]
fn export_replaces_a_file_only_by_force() {
    let place = Place::with_store();
    place.write("out.jsonl", "mine");
    place.run("store export out.jsonl").failed(6, &["out.jsonl already exists", "--force"]);
    assert_eq!(place.read("out.jsonl"), "mine");
    place.run("store export out.jsonl --force").succeeded();
    assert!(place.read("out.jsonl").starts_with("{\"weaver_export\""));
    place.run("store export none/out.jsonl").failed(3, &["none/out.jsonl", "check the path"]);
}

#[test]
fn import_reads_standard_input() {
    let place = Place::new();
    let mut child = place.command("store import - --output json");
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().expect("the binary starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("it is piped"), EXPORT.as_bytes())
        .expect("it reads");
    let run = Run::from(child.wait_with_output().expect("it ends"));
    assert_eq!(run.json()["added"], 1);
}

#[test]
fn an_import_that_cannot_be_read_is_refused_by_file_and_line() {
    let place = Place::new();
    place.run("store import none.jsonl").failed(3, &["none.jsonl", "next: check the path"]);
    assert!(!place.path("weaver-data").exists(), "a mistyped name leaves nothing behind");
    place.write("cut.jsonl", EXPORT.split_inclusive('\n').take(2).collect::<String>().as_str());
    place.run("store import cut.jsonl").failed(1, &["cut.jsonl", "line 2", "truncated", "import again"]);
    place.write("other.jsonl", "hello\n");
    place.run("store import other.jsonl").failed(1, &["other.jsonl", "line 1"]);
}
