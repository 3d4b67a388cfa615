//! Samples of long enumerations: each gate runs a different part of the cases.
//!
//! | variable | effect |
//! |---|---|
//! | `GATE_ALL=1` | every case; `cargo xtask test --all` sets it |
//! | `GATE_SEED=7` | the sample drawn from 7; `cargo xtask test` sets it to a number from the commit |
//!
//! Without either, the sample is drawn from the date. The seed is part of a test's output, so that a failure
//! can be repeated. The names do not begin with `WEAVER_`: the command under test would report them as
//! unknown settings.

use std::time::{SystemTime, UNIX_EPOCH};

/// Environment variable that selects every case.
pub const ALL: &str = "GATE_ALL";
/// Environment variable with the seed of the samples.
pub const SEED: &str = "GATE_SEED";

/// About `wanted` of the numbers `0..count`, in order, drawn anew for each seed and for each `name`.
///
/// The first and the last are always among them: most enumerations break at their ends.
#[must_use]
pub fn sample(name: &str, count: usize, wanted: usize) -> Vec<usize> {
    let ends = if count > 0 { vec![0, count - 1] } else { Vec::new() };
    choose(name, count, wanted, ends)
}

/// The same without the first and last, for cases without an order (simulated worlds).
#[must_use]
pub fn sample_unordered(name: &str, count: usize, wanted: usize) -> Vec<usize> {
    choose(name, count, wanted, Vec::new())
}

fn choose(name: &str, count: usize, wanted: usize, always: Vec<usize>) -> Vec<usize> {
    if std::env::var_os(ALL).is_some() || count <= wanted {
        println!("{name}: all of {count} cases");
        return (0..count).collect();
    }
    let seed = seed();
    let chosen = draw(seed, name, count, wanted, always);
    println!("{name}: {} of {count} cases; {SEED}={seed} repeats them, {ALL}=1 runs every one", chosen.len());
    chosen
}

/// The seed of this run.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(today)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the date only chooses the cases; it is printed, and can be given"
)]
fn today() -> u64 {
    const DAY_S: u64 = 24 * 60 * 60;
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / DAY_S)
}

fn draw(seed: u64, name: &str, count: usize, wanted: usize, mut chosen: Vec<usize>) -> Vec<usize> {
    let mut draws = Draws::new(seed, name);
    let mut left: Vec<usize> = (0..count).filter(|case| !chosen.contains(case)).collect();
    while chosen.len() < wanted && !left.is_empty() {
        chosen.push(left.swap_remove(draws.below(left.len())));
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Numbers from a seed (SplitMix64): the same on every machine.
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    /// Draws of `seed`, different for each `name`.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a, because the hashes of the standard library may change with it.
        let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, fold))
    }

    /// The next pseudo-random 64 bits.
    #[expect(clippy::should_implement_trait, reason = "it is infinite, and adapters are not needed")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_both_ends_and_the_wanted_size_in_order() {
        let chosen = draw(7, "it", 40, 10, vec![0, 39]);
        assert_eq!(chosen.len(), 10);
        assert_eq!((chosen[0], chosen[9]), (0, 39));
        assert!(chosen.is_sorted());
    }

    #[test]
    fn a_seed_repeats_its_sample_and_another_draws_another() {
        let draw = |seed, name| draw(seed, name, 40, 10, Vec::new());
        assert_eq!(draw(7, "it"), draw(7, "it"));
        assert_ne!(draw(7, "it"), draw(8, "it"));
        assert_ne!(draw(7, "it"), draw(7, "other"));
    }

    #[test]
    fn seeds_together_reach_every_case() {
        let mut reached: Vec<usize> = (0..60).flat_map(|seed| draw(seed, "it", 40, 10, Vec::new())).collect();
        reached.sort_unstable();
        reached.dedup();
        assert_eq!(reached.len(), 40);
    }

    #[test]
    fn an_enumeration_no_longer_than_its_sample_is_run_completely() {
        assert_eq!(sample("short", 3, 10), [0, 1, 2]);
        assert_eq!(sample_unordered("short", 3, 10), [0, 1, 2]);
        assert_eq!(sample("empty", 0, 10), [0; 0]);
    }
}
