//! The server compared with a minimal one and with its own store:
//! `cargo xtask bench api [enqueue|batches|wake-up|start]`.
//!
//! All requests go to the release build of the command (`WEAVER_BIN`, which xtask builds), in its own
//! process, over loopback.

mod batches;
mod empty;
mod enqueue;
mod load;
mod server;
mod start;
mod wake;

/// Concurrent connections of every subject.
const CONNECTIONS: usize = 64;
/// Payload size of every task, in bytes.
const PAYLOAD_BYTES: usize = 100;

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).collect();
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    };
    if parts.first().is_some_and(|part| part == empty::PART) {
        return runtime().block_on(empty::serve());
    }
    if parts.first().is_some_and(|part| part == "alone") {
        return enqueue::alone(&runtime());
    }
    let asked = |part: &str| parts.is_empty() || parts.iter().any(|name| name == part);
    let mut ok = true;
    if asked("start") {
        ok &= start::start(&runtime());
    }
    if asked("wake-up") {
        wake::wake_ups(&runtime());
    }
    if asked("enqueue") {
        ok &= enqueue::enqueue(&runtime());
    }
    if asked("batches") {
        ok &= batches::batches(&runtime());
    }
    std::process::exit(i32::from(!ok));
}

/// The payload of every task, as JSON.
fn payload() -> String {
    "x".repeat(PAYLOAD_BYTES - 2)
}
