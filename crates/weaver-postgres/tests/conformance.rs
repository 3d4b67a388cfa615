//! The conformance suite on PostgreSQL, each test in its own schema.

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    weaver_conformance::main("postgres", support::fresh)
}
