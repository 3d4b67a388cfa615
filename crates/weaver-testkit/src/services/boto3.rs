//! Python with boto3, the AWS SDK that most clients of DynamoDB use: it stands for programs that know only
//! seed 000. Installed once from PyPI, in a virtual environment that outlives the run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "1.40.0";
const INSTALL: &str = "it needs python3 with venv, and PyPI: apt-get update && apt-get install python3-venv";

/// A Python interpreter that has boto3.
///
/// # Panics
/// If it cannot be installed; the message says what is needed.
pub fn python() -> PathBuf {
    let directory = super::dynamodb::directory().with_file_name("boto3");
    std::fs::create_dir_all(&directory).expect("the build's directory can be written");
    // Another test may be installing it.
    let lock = File::create(directory.join("LOCK")).expect("the build's directory can be written");
    lock.lock().expect("files can be locked");
    let place = directory.join(VERSION);
    let complete = place.join("complete");
    if !complete.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place));
        let package = format!("boto3=={VERSION}");
        run(Command::new(place.join("bin/pip")).args(["install", "--quiet", &package]));
        // Last: an installation may be killed in the middle.
        File::create(complete).expect("the environment can be written");
    }
    place.join("bin/python")
}

/// Runs a script in which `boto3` is imported and `client` is a client of the DynamoDB at this endpoint;
/// returns what it prints.
///
/// # Panics
/// If it fails; with its errors.
pub fn run_script(endpoint: &str, access_key: &str, region: &str, script: &str) -> String {
    let prelude = format!(
        "import boto3\nclient = boto3.client('dynamodb', endpoint_url='{endpoint}', region_name='{region}', \
         aws_access_key_id='{access_key}', aws_secret_access_key='x')\n"
    );
    run(Command::new(python()).args(["-c", &format!("{prelude}{script}")]))
}

fn run(command: &mut Command) -> String {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}; {INSTALL}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}\n{INSTALL}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
