//! The embedded store compared with a bare redb group-commit loop and beanstalkd: `cargo xtask bench
//! embedded`.
//!
//! Parts can be selected by name: `cargo xtask bench embedded lifecycles beanstalkd scale steady log`.

mod bare;
mod beanstalkd;
mod disk;
mod lifecycles;
mod log;
mod scale;
mod steady;
mod weaver;

use tokio::runtime::Runtime;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wants = |part: &str| asked.is_empty() || asked.iter().any(|name| name == part);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime: Runtime = runtime.expect("a runtime");
    let mut ok = true;
    if wants("lifecycles") {
        ok &= lifecycles::run(&runtime);
    }
    if wants("beanstalkd") {
        ok &= beanstalkd::run(&runtime);
    }
    if wants("log") {
        ok &= log::run(&runtime);
    }
    if wants("steady") {
        ok &= steady::run(&runtime);
    }
    if wants("scale") {
        ok &= scale::run(&runtime);
    }
    std::process::exit(i32::from(!ok));
}
