//! The PostgreSQL store compared with a hand-written SQL loop on its own schema, apalis-postgres and
//! graphile_worker: `cargo xtask bench postgres`.
//!
//! Parts can be selected by name: `cargo xtask bench postgres bulk drain counters wake
//! lifecycles kinds steady pages` (the last two take minutes, and some gigabytes of disk).

mod apalis_peer;
mod bulk;
mod counters;
mod drain;
mod graphile_peer;
mod hand_written;
mod kinds;
mod lifecycles;
mod pages;
mod server;
mod steady;
mod wake;
mod weaver;

use server::Server;
use tokio::runtime::Runtime;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wants = |part: &str| asked.is_empty() || asked.iter().any(|name| name == part);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime: Runtime = runtime.expect("a runtime");
    let mut ok = true;
    type Part = fn(&Runtime, &Server) -> bool;
    let parts: [(&str, Part); 8] = [
        ("bulk", bulk::run),
        ("drain", drain::run),
        ("counters", counters::run),
        ("wake", wake::run),
        ("lifecycles", lifecycles::run),
        ("kinds", kinds::run),
        ("steady", steady::run),
        ("pages", pages::run),
    ];
    for (name, part) in parts {
        if wants(name) {
            println!("{name}");
            // One server each, so that leftovers of one do not affect another.
            ok &= part(&runtime, &Server::start(&runtime));
        }
    }
    std::process::exit(i32::from(!ok));
}
