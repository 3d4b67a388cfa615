//! `weaver tasks purge` and `quarantine`: the saved copy, the confirmation, refusals.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::canned;
use crate::support::Place;

const STORED: &str = "{\"labels\": 7}";

fn raw(finished: bool, unreadable: Option<&str>) -> String {
    let state = if finished { "succeeded" } else { "running" };
    let mut raw = json!({
        "namespace": "default", "id": "17", "state": state, "finished": finished, "digest": "d1", "text": STORED,
    });
    if let Some(why) = unreadable {
        raw["unreadable"] = json!(why);
    }
    raw.to_string()
}

fn problem(status: u16, code: &str) -> String {
    json!({
        "type": "x", "title": "x", "status": status, "code": code, "detail": "it is so", "hint": "do this",
    })
    .to_string()
}

#[test]
fn a_finished_task_is_deleted_after_its_stored_form_is_saved() {
    let place = Place::new();
    let (requests, run) = canned::run(&place, "tasks purge 17", &[(200, &raw(true, None)), (204, "")]);
    assert!(run.succeeded().contains("Task 17 is deleted; its stored form is saved in weaver-task-17.json"));
    assert_eq!(requests[0].line, "GET /api/v1/tasks/17/raw?namespace=default");
    assert_eq!(requests[1].line, "DELETE /api/v1/tasks/17?namespace=default");
    assert!(requests[1].head.to_lowercase().contains("if-match: \"d1\""), "{}", requests[1].head);
    assert_eq!(place.read("weaver-task-17.json"), STORED);
    let mode =
        std::fs::metadata(place.path("weaver-task-17.json")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "payloads are the owner's alone");
}

#[test]
fn a_task_that_has_not_ended_or_cannot_be_read_needs_a_yes() {
    let place = Place::new();
    for answer in [raw(false, None), raw(false, Some("it cannot be decoded: labels"))] {
        let (requests, run) = canned::run(&place, "tasks purge 17", &[(200, &answer)]);
        run.failed(6, &["not confirmed", "state running", "--yes"]);
        assert_eq!(requests.len(), 1, "nothing was deleted");
        assert!(!place.path("weaver-task-17.json").exists());
    }
    let answers = [(200, raw(false, Some("it cannot be decoded: labels"))), (204, String::new())];
    let answers = answers.each_ref().map(|(status, body)| (*status, body.as_str()));
    let (_, run) = canned::run(&place, "tasks purge 17 --yes --save kept.json --output json", &answers);
    let answer = run.json();
    assert_eq!((&answer["removed"], &answer["saved"]), (&json!(true), &json!("kept.json")));
    assert_eq!(place.read("kept.json"), STORED);
}

#[test]
fn an_existing_file_is_never_replaced_and_nothing_is_deleted() {
    let place = Place::new();
    place.write("weaver-task-17.json", "precious");
    let (requests, run) = canned::run(&place, "tasks purge 17 --yes", &[(200, &raw(true, None))]);
    run.failed(6, &["weaver-task-17.json already exists", "--save"]);
    assert_eq!(requests.len(), 1);
    assert_eq!(place.read("weaver-task-17.json"), "precious");
}

#[test]
fn a_refused_purge_leaves_no_copy_and_an_unknown_outcome_leaves_one() {
    let place = Place::new();
    let refused = problem(412, "task_changed");
    let (_, run) = canned::run(&place, "tasks purge 17", &[(200, &raw(true, None)), (412, &refused)]);
    run.failed(6, &["it is so", "do this"]);
    assert!(!place.path("weaver-task-17.json").exists(), "it would be in the way of the next try");
    let unknown = problem(503, "store_unavailable");
    let (_, run) = canned::run(&place, "tasks purge 17", &[(200, &raw(true, None)), (503, &unknown)]);
    run.failed(4, &["task 17 may have been deleted", "weaver-task-17.json"]);
    assert_eq!(place.read("weaver-task-17.json"), STORED);
}

#[test]
fn records_that_cannot_be_read_are_listed_with_why_and_what_they_hold() {
    let record = json!({
        "kind": "task", "namespace": "default", "id": "7", "reason": "it cannot be decoded: labels\u{1b}[31m",
        "cause": "undecodable", "queue": "mail", "state": "RUNNING",
        "holds": { "serial_key": "k", "slot": true }, "found_at": "2026-01-02T03:04:05Z",
    });
    let page = json!({ "items": [record], "complete": true }).to_string();
    let place = Place::new();
    let (requests, run) = canned::run(&place, "tasks quarantine", &[(200, &page)]);
    let out = run.succeeded();
    assert_eq!(requests[0].line, "GET /api/v1/quarantine?limit=50&namespace=default");
    for text in ["task", "7", "RUNNING", "mail", "serial key k, queue slot", "it cannot be decoded: labels"] {
        assert!(out.contains(text), "{text}\n{out}");
    }
    assert!(!out.contains('\u{1b}'), "{out:?}");
    let empty = json!({ "items": [], "complete": true }).to_string();
    let (_, run) = canned::run(&place, "tasks quarantine --output json", &[(200, &empty)]);
    assert_eq!(run.json()["items"], Value::Array(Vec::new()));
}
