//! Commands that talk to a server: what they ask, how they show it, and how they end.

use serde_json::{Value, json};

use crate::canned;
use crate::support::Place;

fn problem(status: u16, code: &str) -> String {
    json!({
        "type": format!("urn:weaver:problem:{code}"), "title": "X", "status": status, "code": code,
        "detail": format!("the detail of {code}"), "hint": format!("the next step of {code}"),
    })
    .to_string()
}

fn task(state: &str) -> Value {
    json!({
        "namespace": "default", "id": "17", "task_type": "send", "queue": "mail", "payload": {"to": "ada"},
        "content_type": "application/json", "priority": 5, "max_attempts": 5, "max_losses": 3,
        "retry": {"kind": "exponential", "base_ms": 1000, "cap_ms": 3_600_000, "jitter": true},
        "state": state, "version": 3, "renewals": 0, "executions": 1, "failures": 1, "losses": 0, "attempt": 1,
        "ready_at": "2026-01-31T09:30:00.000000Z", "created_at": "2026-01-31T09:30:00.000000Z",
        "updated_at": "2026-01-31T09:30:00.000000Z", "last_error": "全角 connection refused \u{1b}[2J by mail.example.org, which is down for good",
        "result": {"sent": 12345678901234567890123_f64},
        "attempts": [{"attempt": 1, "worker": "w-1", "fence": 2, "ended_at": "2026-01-31T09:30:01.000000Z",
            "outcome": "failed", "error": "connection refused"}],
    })
}

#[test]
fn enqueue_sends_all_flags_and_prints_the_id() {
    let place = Place::new();
    place.write("payload.json", "{\"n\": 12345678901234567890123}");
    let arguments = "enqueue send @payload.json --queue mail --delay 5m --priority 2 --key k --serial-key s \
        --label team=a=b --max-attempts 2 --timeout 30s --group g -n other";
    let (requests, run) =
        canned::run(&place, arguments, &[(201, r#"{"id":"17","namespace":"other","existing":false}"#)]);
    assert_eq!(run.succeeded(), "17\n");
    assert_eq!(requests[0].line, "POST /api/v1/tasks");
    assert!(requests[0].body.contains("12345678901234567890123"), "{}", requests[0].body);
    let sent: Value = serde_json::from_str(&requests[0].body).expect("it is JSON");
    let expected = [
        ("task_type", json!("send")),
        ("namespace", json!("other")),
        ("queue", json!("mail")),
        ("delay_ms", json!(300_000)),
        ("priority", json!(2)),
        ("idempotency_key", json!("k")),
        ("serial_key", json!("s")),
        ("labels", json!({"team": "a=b"})),
        ("max_attempts", json!(2)),
        ("timeout_ms", json!(30_000)),
        ("task_group_id", json!("g")),
    ];
    for (name, value) in expected {
        assert_eq!(sent[name], value, "{name}");
    }
}

#[test]
fn a_payload_that_is_not_json_is_refused_before_anything_is_sent() {
    let place = Place::new();
    place
        .run("enqueue send hello")
        .failed(2, &["payload is not valid JSON", "next: put strings in double quotes"]);
    place.run("enqueue send @none.json").failed(3, &["none.json"]);
    place.run("enqueue send 1 --delay soon").failed(2, &["soon", "30s"]);
}

#[test]
fn an_unreachable_server_is_exit_code_4_with_the_command_that_starts_one() {
    // No process listens there: the port was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port").local_addr();
    let address = free.expect("it was bound").to_string();
    let place = Place::new();
    place
        .run(&format!("tasks list --server http://{address}"))
        .failed(4, &[&address, "cannot be reached", "weaver serve"]);
    place.run("tasks list --server nonsense").failed(2, &["nonsense", "http://127.0.0.1:7117"]);
}

#[test]
fn each_http_status_has_its_exit_code_and_shows_the_servers_message() {
    let place = Place::new();
    for (status, exit) in
        [(400, 2), (401, 6), (403, 6), (404, 3), (409, 6), (422, 2), (429, 4), (503, 4), (500, 1)]
    {
        let (_, run) = canned::run(&place, "tasks explain 17", &[(status, &problem(status, "x"))]);
        run.failed(exit, &["error: the detail of x", "next: the next step of x"]);
    }
}

#[test]
fn a_list_sends_its_filters_and_fits_the_terminal() {
    let place = Place::new();
    let page = json!({"items": [task("dead")], "complete": true}).to_string();
    let arguments = "tasks list --state dead,retrying --type send --queue mail --label team=a --limit 7";
    let (requests, run) = canned::run(&place, arguments, &[(200, &page)]);
    let table = run.succeeded();
    assert!(table.starts_with("ID  STATE"), "{table}");
    assert!(!table.contains('\u{1b}'), "what tasks say must not steer a terminal: {table}");
    for part in ["state=dead%2Cretry_scheduled", "task_type=send", "queue=mail", "label=team%3Da", "limit=7"]
    {
        assert!(requests[0].line.contains(part), "no {part} in {}", requests[0].line);
    }
    let (_, run) = canned::run(&place, "tasks list --output json", &[(200, &page)]);
    assert_eq!(run.json()["items"][0]["id"], "17");
}

#[test]
fn a_list_fetches_pages_until_it_has_enough() {
    let place = Place::new();
    let first = json!({"items": [task("dead")], "next": "c1", "complete": false}).to_string();
    let second = json!({"items": [task("dead")], "next": "c2", "complete": true}).to_string();
    let (requests, run) = canned::run(&place, "tasks list --limit 2", &[(200, &first), (200, &second)]);
    let table = run.succeeded();
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains("More tasks match: raise --limit (now 2)."), "{table}");
    assert!(
        requests[1].line.contains("cursor=c1") && requests[1].line.contains("limit=1"),
        "{}",
        requests[1].line
    );
}

#[test]
fn show_prints_the_set_fields_and_explain_the_reasons() {
    let place = Place::new();
    let (_, run) = canned::run(&place, "tasks show 17", &[(200, &task("dead").to_string())]);
    let text = run.succeeded();
    for words in [
        "task             17 in default",
        "payload          {\"to\":\"ada\"}",
        "ATTEMPT  OUTCOME",
        "connection refused",
    ] {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    let explanation = json!({"namespace": "default", "id": "17", "state": "queued", "as_of": "2026-01-31T09:30:00Z",
        "reasons": [{"code": "paused", "message": "queue `mail` is paused"}]});
    let (_, run) = canned::run(&place, "tasks explain 17", &[(200, &explanation.to_string())]);
    assert_eq!(run.succeeded(), "Task 17 is queued.\n  queue `mail` is paused\n");
}

#[test]
fn one_task_that_cannot_be_cancelled_does_not_protect_the_others() {
    let place = Place::new();
    let cancelled = task("cancelled").to_string();
    let answers = [(404, problem(404, "not_found")), (200, cancelled)];
    let answers: Vec<(u16, &str)> = answers.iter().map(|(status, body)| (*status, body.as_str())).collect();
    let (requests, run) = canned::run(&place, "tasks cancel 16 17", &answers);
    assert!(requests[1].line.starts_with("POST /api/v1/tasks/17/cancel"), "{}", requests[1].line);
    assert!(run.out.contains("17 is cancelled."), "{}", run.out);
    run.failed(3, &["the detail of not_found"]);
}

#[test]
fn retry_prints_the_new_task() {
    let answer = r#"{"id":"18","namespace":"default","existing":false}"#;
    let (_, run) = canned::run(&Place::new(), "tasks retry 17", &[(201, answer)]);
    assert_eq!(run.succeeded(), "Task 17 is retried as task 18.\n");
}

#[test]
fn wait_ends_as_the_task_did() {
    let place = Place::new();
    let waited = |ended: bool, state: &str| json!({"ended": ended, "task": task(state)}).to_string();
    let answers = [(200, waited(false, "running")), (200, waited(true, "succeeded"))];
    let answers: Vec<(u16, &str)> = answers.iter().map(|(status, body)| (*status, body.as_str())).collect();
    let (_, run) = canned::run(&place, "tasks wait 17", &answers);
    assert!(run.succeeded().starts_with("{\"sent\":"));

    let (_, run) = canned::run(&place, "tasks wait 17", &[(200, &waited(true, "dead"))]);
    run.failed(7, &["task 17 is dead: ", "connection refused", "weaver tasks retry 17"]);

    let (_, run) = canned::run(&place, "tasks wait 17 --timeout 0s", &[(200, &waited(false, "running"))]);
    run.failed(4, &["timed out: task 17 is running", "weaver tasks explain 17"]);
}

#[test]
fn logs_are_followed_to_the_end_of_their_task() {
    let place = Place::new();
    let page = |seq: u64, body: &str, ended: bool| {
        json!({"attempt": 2, "lines": [{"seq": seq, "at": "2026-01-31T09:30:00Z", "body": body}], "next": seq,
            "more": false, "ended": ended})
        .to_string()
    };
    let over = task("succeeded").to_string();
    let answers = [(200, page(1, "one", false)), (200, page(2, "two", true)), (200, over)];
    let answers: Vec<(u16, &str)> = answers.iter().map(|(status, body)| (*status, body.as_str())).collect();
    let (requests, run) = canned::run(&place, "tasks logs 17 -f", &answers);
    assert_eq!(run.succeeded(), "one\ntwo\n");
    for part in ["attempt=2", "after=1", "wait_ms="] {
        assert!(requests[1].line.contains(part), "no {part} in {}", requests[1].line);
    }
    let (_, run) = canned::run(&place, "tasks logs 17 --output json", &[(200, &page(1, "one", false))]);
    assert_eq!(run.json()["body"], "one");
}

#[test]
fn a_limit_leaves_the_rest_of_the_settings_as_they_were_read() {
    let place = Place::new();
    let queues = json!({"items": [{"name": "mail", "paused": true, "dispatch": "assign", "version": 4, "occupied": 0,
        "counts": {"states": {"queued": 3}, "oldest_wait_ms": 90_000, "as_of": "2026-01-31T09:30:00Z", "exact": true}}]})
    .to_string();
    let set = r#"{"name":"mail","paused":true,"max_running":4,"version":5}"#;
    let (requests, run) = canned::run(&place, "queues limit mail 4", &[(200, &queues), (200, set)]);
    assert_eq!(run.succeeded(), "Queue mail is paused; concurrency limit 4.\n");
    let sent: Value = serde_json::from_str(&requests[1].body).expect("it is JSON");
    assert_eq!(sent, json!({"paused": true, "max_running": 4, "dispatch": "assign", "expected_version": 4}));
    let (_, run) = canned::run(&place, "queues list", &[(200, &queues)]);
    let table = run.succeeded();
    assert!(table.contains("mail   paused  none   3") && table.contains("90 s"), "{table}");
    place.run("queues limit mail 0").failed(2, &["`none`"]);
}

#[test]
fn a_configured_token_is_sent_to_the_server_and_never_printed() {
    let place = Place::new();
    place.write("weaver.toml", "token = \"wvr_secret\"\n");
    let empty = json!({"items": [], "complete": true}).to_string();
    let (requests, run) = canned::run(&place, "workers list", &[(200, &empty)]);
    run.succeeded();
    assert!(requests[0].head.contains("authorization: Bearer wvr_secret"), "{}", requests[0].head);
    let shown = place.run("config show").succeeded() + &place.run("config show --output json").succeeded();
    assert!(shown.contains("(set, not shown)") && !shown.contains("wvr_secret"), "{shown}");
}
