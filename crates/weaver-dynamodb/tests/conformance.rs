//! The conformance suite on DynamoDB Local, behind indexes that lag.

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    weaver_conformance::main("dynamodb", support::lagging)
}
