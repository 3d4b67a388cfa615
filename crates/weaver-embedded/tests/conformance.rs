//! The conformance suite on the embedded store, on real files.

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    weaver_conformance::main("embedded", || async { support::on_disk() })
}
