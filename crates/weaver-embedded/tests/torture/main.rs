//! Torture: a process under load is killed with SIGKILL at random instants, repeatedly on one store; what the
//! store acknowledged before holds afterwards (G1–G5, and what of G8 and G10 a crash could break).
//!
//! ```text
//! round ──orders──▶ child: store + clients ──lines──▶ round ──kill──▶ … ──▶ inspect ──▶ checker
//! ```
//!
//! Start at `round.rs`, then `child.rs` and `client.rs`; the checks are in `checker/`. A kill keeps
//! everything that was handed to the kernel: whether it was fsynced is tested by the power cuts.
//!
//! `cargo xtask torture --minutes N` goes on for longer.

mod checker;
mod checker_tests;
mod child;
mod client;
mod dice;
mod inspect;
mod long;
mod round;
mod wire;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// Stores and kills of the ordinary test. Several stores, so that creation is interrupted too.
const SEEDS: [u64; 3] = [1, 2, 3];
const KILLS: u64 = 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some(round::CHILD) => {
            child::run(&serde_json::from_str(&args[1]).expect("orders from the parent"));
            ExitCode::SUCCESS
        }
        Some(long::MINUTES | long::SEED | long::KILLS) => long::run(&args),
        _ => {
            let mut trials = vec![Trial::test("what_was_acknowledged_survives_sixty_kills", survives)];
            trials.extend(checker_tests::trials());
            libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
        }
    }
}

fn survives() -> Result<(), libtest_mimic::Failed> {
    let mut all = round::Tally::default();
    for seed in SEEDS {
        all += round::run(seed, KILLS)?;
    }
    println!("{all}");
    // A round without enough activity would prove nothing.
    assert!(
        all.kills >= 50 && all.while_opening > 0 && all.acknowledged > 1000 && all.unanswered > 50,
        "{all}"
    );
    Ok(())
}
