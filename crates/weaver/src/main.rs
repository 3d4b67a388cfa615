//! The `weaver` command: commands in `cli/`, one file each; settings in `config/`; text and JSON output in
//! `output/`; stores by URL in `wiring.rs`, one file per store in `wiring/`.

mod cli;
mod config;
mod exit;
mod finding;
mod output;
mod secrets;
mod wiring;

/// A request is allocated on a server thread and freed on the store's: the system's allocator contends there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
