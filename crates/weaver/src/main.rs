//! The `weaver` command. What it can do is in `cli/`, one file per command; where its settings come from in `config/`; how it
//! talks in `output/`; and which store a URL means in `wiring.rs`.

mod cli;
mod config;
mod exit;
mod output;
mod wiring;

fn main() -> std::process::ExitCode {
    cli::main()
}
