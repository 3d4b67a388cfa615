//! The conformance suite on the in-memory store.

use std::process::ExitCode;

fn main() -> ExitCode {
    weaver_conformance::main("memory", || async { weaver_testkit::harness::in_memory() })
}
