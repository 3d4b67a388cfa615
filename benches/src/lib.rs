//! What every benchmark needs: interleaved rounds, medians with their spread, memory as the system sees it.

pub mod scratch;
pub mod source;

use std::time::Duration;

/// Rounds per subject. An odd number, so that the median is a measurement.
pub const ROUNDS: usize = 7;

/// The figures of one subject over all rounds.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Many figures at once.
    pub fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }

    /// Adds the figure of one round.
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
        self.0.sort_by(f64::total_cmp);
    }

    /// The middle figure.
    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The figure below which this part of them lies.
    pub fn quantile(&self, part: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * part) as usize]
    }

    /// How far the figures lie apart, as a part of the median: half the distance from the least to the most.
    pub fn spread(&self) -> f64 {
        (self.0[self.0.len() - 1] - self.0[0]) / 2.0 / self.median()
    }
}

/// Measures subjects in turn, round by round, so that whatever disturbs the machine disturbs all of them.
pub fn interleaved<const N: usize>(mut subjects: [&mut dyn FnMut() -> f64; N]) -> [Samples; N] {
    let mut samples: [Samples; N] = std::array::from_fn(|_| Samples::default());
    for round in 0..=ROUNDS {
        for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
            let figure = subject();
            // The first round only warms up.
            if round > 0 {
                samples.push(figure);
            }
        }
        eprint!("\r  round {round}/{ROUNDS}");
    }
    eprint!("\r                \r");
    samples
}

/// So many things in such a time, per second.
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// What the process occupies, in bytes.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// The processor time the process has used, in seconds: says what work costs where the clock says who else is
/// working.
pub fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux tells");
    let after_name = stat.rsplit(')').next().expect("a name");
    let fields: Vec<f64> = after_name.split(' ').filter_map(|field| field.parse().ok()).collect();
    // Past the state, which is no number: user time is the eleventh, system time the twelfth.
    (fields[10] + fields[11]) / TICKS_PER_SECOND
}

/// Prints a ratio beside its limit; says whether it holds.
pub fn verdict(what: &str, ratio: f64, limit: f64, at_least: bool) -> bool {
    let holds = if at_least { ratio >= limit } else { ratio <= limit };
    let sign = if at_least { "≥" } else { "≤" };
    println!("  {} {what}: {ratio:.2} × (limit {sign} {limit})", if holds { "ok  " } else { "MISS" });
    holds
}
