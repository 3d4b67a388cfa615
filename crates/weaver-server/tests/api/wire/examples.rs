//! What the OpenAPI document does not contain: enum words that it has as strings, how serde writes them, and
//! the data of events.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use weaver_api as wire;
use weaver_api::merge_convert as convert;
use weaver_core::explain::Reason;
use weaver_core::ports::Directive;
use weaver_core::quarantine::RecordKind;
use weaver_core::task::{AttemptOutcome, Cause, TaskState};
use weaver_core::time::Timestamp;
use weaver_merge::engine::JournalEvent;
use weaver_scheduler::definition::NoticeKind;

const AT: Timestamp = Timestamp::MIN;

pub(super) fn all() -> String {
    let mut out = String::from("## Words as they are written\n\n");
    words_of_tasks(&mut out);
    words_of_work(&mut out);
    words_of_schedules(&mut out);
    words_of_merge_queues(&mut out);
    out.push_str("\n## Reasons of explanations\n\n");
    for reason in reasons() {
        let written = wire::Reason::from(&reason);
        line(&mut out, &written.code.clone(), &without_message(&written));
    }
    out.push_str("\n## Events\n\n");
    for name in [wire::EVENT_CHANGE, wire::EVENT_RESYNC, wire::EVENT_END] {
        line(&mut out, "event", &name);
    }
    let change = json!({ "namespace": "n", "id": "1", "version": 2, "state": "running", "at": AT });
    let change: wire::Change = serde_json::from_value(change).expect("a change");
    line(&mut out, wire::EVENT_CHANGE, &change);
    for written in merge_events() {
        let written: JournalEvent = serde_json::from_value(written).expect("an event of a merge queue");
        let event = convert::event(written, AT);
        line(&mut out, &event.event.clone(), &event);
    }
    out
}

fn line<T: Serialize>(out: &mut String, name: &str, value: &T) {
    let _ = writeln!(out, "{name}: {}", serde_json::to_string(value).expect("it can be written"));
}

/// Messages may change freely.
fn without_message(reason: &wire::Reason) -> Value {
    let mut value = serde_json::to_value(reason).expect("it can be written");
    value["message"] = json!("…");
    value
}

fn words_of_tasks(out: &mut String) {
    use AttemptOutcome as A;
    line(out, "TaskState", &TaskState::ALL);
    let outcomes =
        [A::Succeeded, A::Failed, A::TimedOut, A::Lost, A::Released, A::Snoozed, A::Cancelled, A::Orphaned];
    line(out, "AttemptOutcome", &outcomes);
    line(out, "Cause", &Cause::ALL.map(word_of_cause));
    line(out, "Directive", &Directive::ALL);
    line(out, "WorkerStatus", &[wire::WorkerStatus::Running, wire::WorkerStatus::Stopped]);
    line(
        out,
        "RecordKind",
        &[RecordKind::Task, RecordKind::QueueSettings, RecordKind::Runner, RecordKind::Document],
    );
    line(out, "TaskOrder", &[wire::Order::NewestFirst, wire::Order::OldestFirst]);
    for policy in [
        json!({ "kind": "none" }),
        json!({ "kind": "fixed", "delay_ms": 1 }),
        json!({ "kind": "exponential", "base_ms": 1.0, "cap_ms": 3, "jitter": true }),
    ] {
        let policy: wire::RetryPolicy = serde_json::from_value(policy).expect("a policy");
        line(out, "RetryPolicy", &policy);
    }
}

/// In JSON: in a task, or in a reason.
fn word_of_cause(cause: Cause) -> Value {
    without_message(&wire::Reason::from(&Reason::DueAt { at: AT, because: Some(cause) }))["cause"].take()
}

fn words_of_work(out: &mut String) {
    use wire::{ContinuationChange, FinishStatus, OutcomeKind, Renewed};
    for words in [
        read::<Renewed>("RenewResult", &["extended", "cancelled", "lost", "busy"]),
        read::<OutcomeKind>(
            "OutcomeKind",
            &["succeeded", "failed", "timed_out", "snoozed", "cancelled", "released", "committed"],
        ),
        read::<FinishStatus>("FinishStatus", &["recorded", "lost", "result_too_large"]),
        read::<wire::UnreadableCause>("UnreadableCause", &["unknown_format", "undecodable"]),
        read::<wire::Role>("Role", &["viewer", "producer", "worker", "operator", "admin"]),
    ] {
        let _ = writeln!(out, "{words}");
    }
    for continuing in [json!({ "confirming": { "within_ms": 1.0 } }), json!("continue")] {
        let continuing: ContinuationChange = serde_json::from_value(continuing).expect("a change");
        line(out, "Continuing", &continuing);
    }
}

/// Words that are parsed, as they are serialized again.
fn read<T: serde::de::DeserializeOwned + Serialize>(name: &str, words: &[&str]) -> String {
    let read: Vec<T> = serde_json::from_value(json!(words)).unwrap_or_else(|error| panic!("{name}: {error}"));
    format!("{name}: {}", serde_json::to_string(&read).expect("they can be written"))
}

fn words_of_schedules(out: &mut String) {
    use NoticeKind as N;
    for words in [
        read::<wire::Gap>("Gap", &["shift", "skip"]),
        read::<wire::Fold>("Fold", &["first", "last", "both"]),
        read::<wire::ConcurrencyPolicy>("ConcurrencyPolicy", &["forbid", "allow", "replace"]),
        read::<wire::Dispatch>("Dispatch", &["pull", "assign"]),
    ] {
        let _ = writeln!(out, "{words}");
    }
    line(out, "NoticeKind", &[N::Merged, N::Skipped, N::Replaced, N::Refused, N::Unreadable]);
    for spec in [
        json!({ "trigger": { "kind": "time", "schedule": "every 5m" }, "task": { "task_type": "t" } }),
        json!({
            "enabled": false,
            "trigger": { "kind": "time", "schedule": "s", "tz": "z", "gap": "skip", "fold": "both" },
            "task": {
                "task_type": "t", "payload": { "b": 1, "a": [null] }, "queue": "q", "priority": 3.0, "timeout_ms": 4,
                "max_attempts": 5, "max_losses": 6, "retry": { "kind": "none" }, "labels": { "l": "m" },
            },
            "concurrency_policy": "replace", "misfire": { "kind": "run_all", "max": 2.0 }, "dispatch": "assign",
        }),
        json!({
            "trigger": { "kind": "event", "event_type": "e" },
            "task": { "task_type": "t", "payload": {}, "event_field": "f" },
            "misfire": { "kind": "skip_after", "seconds": 1 },
        }),
    ] {
        let spec: wire::ScheduleSpec = serde_json::from_value(spec).expect("a schedule");
        line(out, "ScheduleSpec", &spec);
    }
}

fn words_of_merge_queues(out: &mut String) {
    for words in [
        read::<wire::MergeStatus>(
            "MergeStatus",
            &["pending", "updating", "checking", "ready", "landed", "failed", "cancelled"],
        ),
        read::<wire::OnForeign>("MergeOnForeign", &["accept", "pause"]),
    ] {
        let _ = writeln!(out, "{words}");
    }
    use weaver_merge::domain::PauseCause as P;
    let causes = [P::Other, P::Foreign, P::MovedBack, P::Refused, P::Declined];
    line(out, "MergePause.cause", &causes.map(P::word));
}

fn reasons() -> Vec<Reason> {
    let queue = || "q".try_into().expect("a name");
    let worker = || "w".try_into().expect("a name");
    let id = weaver_core::id::TaskId(1);
    vec![
        Reason::DueAt { at: AT, because: Some(Cause::Failed) },
        Reason::Expired { at: AT },
        Reason::KeyHeld { by: id.to_string(), worker: Some(worker()), until: Some(AT) },
        Reason::KeyUnreadable { by: id.to_string() },
        Reason::KeyWaitsFor { task: id.to_string() },
        Reason::Ahead { at_least: 1 },
        Reason::Paused { queue: queue() },
        Reason::SettingsUnreadable { queue: queue() },
        Reason::LimitReached { queue: queue(), occupied: 1, max_running: 1 },
        Reason::SlotsUnreadable { queue: queue(), count: 1 },
        Reason::NoWorker { queue: queue(), task_type: "t".try_into().expect("a name"), alive: 1 },
        Reason::NextInLine,
        Reason::Assigned { worker: worker(), since: AT },
        Reason::Orphaned { losses: 1 },
        Reason::Running { worker: worker(), since: AT, lease_until: AT },
        Reason::RunningUnleased,
        Reason::Ended {
            state: TaskState::Dead,
            because: Some(Cause::Lost),
            at: AT,
            error: Some("e".to_owned()),
        },
        Reason::HandlerStopping { worker: worker(), until: AT },
    ]
}

/// One of each kind, with every reason, conclusion and outcome of a run.
fn merge_events() -> Vec<Value> {
    let event = |event: &str, fields: Value| {
        let mut written = json!({ "queue": "r:main", "key": "k", "event": event });
        for (name, value) in fields.as_object().into_iter().flatten() {
            written[name] = value.clone();
        }
        written
    };
    let (from, to) = ("a".repeat(40), "b".repeat(40));
    let mut events = vec![
        event("queue_entry_added", json!({ "entry": 1, "pull_request": "c", "position": 1 })),
        event("pull_request_merged", json!({ "entry": 1, "pull_request": "c", "commit": from, "tree": to })),
        event(
            "base_moved_outside",
            json!({ "from": from, "to": to, "commits": 1, "by": ["x"], "accepted_by": "y" }),
        ),
        event("queue_paused", json!({ "problem": "p" })),
        event("queue_trouble", json!({ "entry": 1, "problem": "p" })),
        event("queue_removed", json!({ "by": "x", "entries": 2 })),
    ];
    let removed = |fields: Value| {
        let mut fields = fields;
        (fields["entry"], fields["pull_request"]) = (json!(1), json!("c"));
        event("queue_entry_removed", fields)
    };
    events.push(removed(json!({ "reason": "checks_failed", "checks": ["a"], "results": checks() })));
    events.push(removed(json!({ "reason": "conflicted", "paths": ["a"], "results": [] })));
    events.push(removed(json!({ "reason": "unusable", "problem": "p", "results": [] })));
    events.push(removed(json!({ "reason": "hook_declined", "text": "no", "results": [] })));
    for reason in [
        "already_merged",
        "merged_outside",
        "closed",
        "branch_deleted",
        "retargeted",
        "draft",
        "trigger_removed",
        "cancelled",
        "queue_removed",
    ] {
        events.push(removed(json!({ "reason": reason, "results": [] })));
    }
    events
}

fn checks() -> Value {
    let run =
        |on: &str, end: Value| json!({ "on": on, "number": 1, "requested_at": AT, "task": "7", "end": end });
    let passed = |on| run(on, json!({ "end": "passed", "log_hash": "h" }));
    let failed = |on| run(on, json!({ "end": "failed", "summary": "s", "log_hash": "h" }));
    let lost = run("candidate", json!({ "end": "lost", "reason": "r" }));
    let check = |runs: Vec<Value>| json!({ "name": "n", "runs": runs });
    json!([
        { "name": "n", "is_reused": true, "runs": [] },
        check(vec![run("candidate", Value::Null)]),
        check(vec![passed("candidate")]),
        check(vec![run("candidate", json!({ "end": "timed_out" })), passed("candidate")]),
        check(vec![failed("candidate"), failed("candidate"), passed("base")]),
        check(vec![failed("candidate"), failed("candidate"), failed("base")]),
        check(vec![lost; 12]),
    ])
}
