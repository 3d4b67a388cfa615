//! The server beside an empty one and beside its own store:
//! `cargo xtask bench api [enqueue|batches|wake-up|start]`.
//!
//! Everything is asked of the released command (`WEAVER_BIN`, which xtask builds), in a process of its own,
//! over loopback.

mod batches;
mod empty;
mod enqueue;
mod load;
mod server;
mod start;
mod wake;

/// Connections at once, of every subject.
const CONNECTIONS: usize = 64;
/// What every task carries.
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
