//! Throw-away services: real servers, started by the first test that needs one, shared by all tests, and
//! stopped when no test uses them.

pub mod boto3;
pub mod browser;
pub mod dynamodb;
pub mod faketime;
pub mod pooler;
pub mod postgres;

/// A name for what this process creates on a shared service, such as a schema: letters and digits. It
/// includes the start time of the process, because process ids are reused while the service runs.
pub fn process_key() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("there is /proc");
    // The 22nd field; the second, the name of the program, may contain spaces.
    let started = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(19));
    format!("{}x{}", std::process::id(), started.expect("a process has a start time"))
}
