//! The `weaver` command. What it can do is in `cli/`, one file per command; where its settings come from in
//! `config/`; how it talks in `output/`; and which store a URL means in `wiring.rs`, one file per store in
//! `wiring/`.

mod cli;
mod config;
mod exit;
mod finding;
mod output;
mod secrets;
mod wiring;

/// A request is allocated on a server's thread, its task freed on the store's: the system's allocator has the
/// two wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
