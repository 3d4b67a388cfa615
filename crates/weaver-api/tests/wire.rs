//! Mutated requests: refused, or read as a value that survives a round trip through JSON.
//!
//! The first byte of an input chooses the type; the rest is its JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use weaver_api::{
    AppendRequest, EnqueueRequest, FinishRequest, HeartbeatRequest, LeaseRequest, NewMergeEntry, PutSchedule,
    RenewRequest, WaitForWork,
};
use weaver_testkit::fuzz::Target;

/// Reads, writes and reads again; then does with it what a server does first.
fn read_twice<T: Serialize + DeserializeOwned>(
    name: &str,
    json: &[u8],
    then: impl FnOnce(T) -> Option<String>,
) -> String {
    let value: T = match serde_json::from_slice(json) {
        Ok(value) => value,
        Err(error) => return format!("{name} {error}"),
    };
    let written = serde_json::to_string(&value).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(serde_json::to_string(&again).expect("the same"), written);
    format!("{name} {}", then(value).unwrap_or_default())
}

fn only<T>(_: T) -> Option<String> {
    None
}

fn read(input: &[u8]) -> String {
    let Some((choice, json)) = input.split_first() else { return "empty".to_owned() };
    match choice {
        b'0' => read_twice::<EnqueueRequest>("enqueue", json, only),
        b'1' => read_twice("lease", json, |request: LeaseRequest| refusal(request.to_core())),
        b'2' => read_twice::<RenewRequest>("renew", json, only),
        b'3' => read_twice("finish", json, |request: FinishRequest| {
            // Every outcome is converted, even after the first refusal.
            let refusals: Vec<String> =
                request.ends.into_iter().filter_map(|end| refusal(end.into_core())).collect();
            refusals.into_iter().next()
        }),
        b'4' => read_twice::<HeartbeatRequest>("heartbeat", json, only),
        b'5' => read_twice::<PutSchedule>("schedule", json, only),
        b'6' => read_twice::<AppendRequest>("append", json, only),
        b'7' => read_twice::<NewMergeEntry>("entry", json, only),
        _ => read_twice("wait", json, |request: WaitForWork| refusal(request.to_core())),
    }
}

fn refusal<T, E: ToString>(result: Result<T, E>) -> Option<String> {
    result.err().map(|error| error.to_string())
}

/// Names of fields and values at the edge of what numbers can be.
const WORDS: &[&str] = &[
    "\"tasks\":",
    "\"result_hex\":\"",
    "\"task_type\":",
    "\"payload\":",
    "\"priority\":",
    "\"delay_ms\":",
    "\"run_at\":",
    "null",
    "[]",
    "{}",
    "1e400",
    "30.0",
    "-0",
    "18446744073709551616",
    "9007199254740993.0",
    "\"\\ud800\"",
    "\"2030-01-01T00:00:00Z\"",
    ",",
    ":",
    "\"a\"",
    "true",
];

#[test]
fn fuzzed_requests_are_refused_or_read_back_as_they_are_written() {
    Target::new("wire", env!("CARGO_MANIFEST_DIR")).inputs(150_000).words(WORDS).run(read);
}
