//! Common parts of the benchmarks: interleaved rounds, medians with their spread, resident memory.

pub mod scratch;
pub mod source;

use std::time::Duration;

/// Rounds per subject. An odd number, so that the median is a measurement.
pub const ROUNDS: usize = 7;

/// The measurements of one subject over all rounds.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    sorted: Vec<f64>,
    /// In the order of the rounds, to compare subjects round by round.
    rounds: Vec<f64>,
}

impl Samples {
    /// Collects all measurements at once, in the order of their rounds.
    pub fn of(rounds: Vec<f64>) -> Self {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        Self { sorted, rounds }
    }

    /// Adds the measurement of one round.
    pub fn push(&mut self, measurement: f64) {
        self.rounds.push(measurement);
        self.sorted.push(measurement);
        self.sorted.sort_by(f64::total_cmp);
    }

    /// The measurements in the order of their rounds.
    pub fn rounds(&self) -> &[f64] {
        &self.rounds
    }

    /// Median of the measurements; panics if there are none.
    pub fn median(&self) -> f64 {
        self.sorted[self.sorted.len() / 2]
    }

    /// Quantile, with `part` from 0 to 1.
    pub fn quantile(&self, part: f64) -> f64 {
        self.sorted[((self.sorted.len() - 1) as f64 * part) as usize]
    }

    /// Half the range, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        (self.sorted[self.sorted.len() - 1] - self.sorted[0]) / 2.0 / self.median()
    }
}

/// Measures subjects in turn, round by round, so that noise of the machine affects all of them.
pub fn interleaved<const N: usize>(mut subjects: [&mut dyn FnMut() -> f64; N]) -> [Samples; N] {
    let mut samples: [Samples; N] = std::array::from_fn(|_| Samples::default());
    for round in 0..=ROUNDS {
        for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
            let measurement = subject();
            // The first round is a warm-up.
            if round > 0 {
                samples.push(measurement);
            }
        }
        eprint!("\r  round {round}/{ROUNDS}");
    }
    eprint!("\r                \r");
    samples
}

/// Events per second of elapsed time.
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// Resident memory of the process, in bytes.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// CPU time of the process, in seconds: unlike wall time, independent of other processes.
pub fn cpu_seconds() -> f64 {
    CpuTimes::of("self").expect("Linux tells").own_seconds
}

/// CPU time of a process and its children, living and ended, in seconds.
pub fn cpu_seconds_of_tree(pid: u32) -> f64 {
    let root = CpuTimes::of(&pid.to_string()).expect("the process lives");
    let processes = std::fs::read_dir("/proc").expect("Linux tells").flatten();
    let children = processes
        .filter_map(|entry| CpuTimes::of(entry.file_name().to_str()?))
        .filter(|times| times.parent == pid)
        .map(|times| times.own_seconds);
    root.own_seconds + root.ended_children_seconds + children.sum::<f64>()
}

struct CpuTimes {
    parent: u32,
    own_seconds: f64,
    ended_children_seconds: f64,
}

impl CpuTimes {
    fn of(process: &str) -> Option<Self> {
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name, in parentheses, may contain spaces; the state after it is not a number.
        let after_name = stat.rsplit(')').next()?;
        let fields: Vec<f64> = after_name.split(' ').filter_map(|field| field.parse().ok()).collect();
        let seconds = |at: usize| Some((fields.get(at)? + fields.get(at + 1)?) / TICKS_PER_SECOND);
        let parent = *fields.first()? as u32;
        Some(Self { parent, own_seconds: seconds(10)?, ended_children_seconds: seconds(12)? })
    }
}

/// The ratio of two subjects: the median of the rounds' ratios, with an interval for it. A round's two
/// measurements were made one after the other, so that slow changes of the machine's speed cancel out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedRatio {
    /// Median of the ratios.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that the interval contains the true median, whatever the distribution: at least 0.95 if
    /// there are six rounds or more.
    pub confidence: f64,
}

/// Compares two subjects round by round. The interval is that of order statistics: the ratio is below its
/// median as often as a coin falls on heads.
pub fn paired(subject: &Samples, base: &Samples) -> PairedRatio {
    let pairs = subject.rounds.iter().zip(&base.rounds);
    let ratios = Samples::of(pairs.map(|(one, other)| one / other).collect());
    let count = ratios.sorted.len();
    // The probability that at most `dropped` of the ratios are below the true median, or above it.
    let (mut tail, mut term, mut dropped) = (0.0, 0.5_f64.powi(count as i32), 0);
    let (mut confidence, mut cut) = (1.0 - 2.0 * term, 0);
    while dropped < count / 2 {
        tail += term;
        if 1.0 - 2.0 * tail < 0.95 {
            break;
        }
        (confidence, cut) = (1.0 - 2.0 * tail, dropped);
        term *= (count - dropped) as f64 / (dropped + 1) as f64;
        dropped += 1;
    }
    PairedRatio {
        median: ratios.median(),
        low: ratios.sorted[cut],
        high: ratios.sorted[count - 1 - cut],
        confidence,
    }
}

/// Prints the ratio of two subjects with its interval and its limit; true if the median is within the limit.
pub fn paired_verdict(what: &str, subject: &Samples, base: &Samples, limit: f64) -> bool {
    let ratio = paired(subject, base);
    let holds = ratio.median >= limit;
    println!(
        "  {} {what}: {:.2} × [{:.2}, {:.2}] at {:.0} %, median of {} pairs (limit ≥ {limit})",
        if holds { "ok  " } else { "MISS" },
        ratio.median,
        ratio.low,
        ratio.high,
        ratio.confidence * 100.0,
        subject.rounds.len().min(base.rounds.len()),
    );
    holds
}

/// Prints a ratio with its limit; true if it is within the limit.
pub fn verdict(what: &str, ratio: f64, limit: f64, at_least: bool) -> bool {
    let holds = if at_least { ratio >= limit } else { ratio <= limit };
    let sign = if at_least { "≥" } else { "≤" };
    println!("  {} {what}: {ratio:.2} × (limit {sign} {limit})", if holds { "ok  " } else { "MISS" });
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(count: usize) -> Samples {
        Samples::of((1..=count).map(|number| number as f64).collect())
    }

    #[test]
    fn a_ratio_is_that_of_the_rounds_not_of_the_medians() {
        let fast_then_slow = Samples::of(vec![100.0, 100.0, 100.0, 10.0, 10.0, 10.0, 10.0]);
        let other = Samples::of(vec![50.0, 50.0, 50.0, 5.0, 5.0, 5.0, 5.0]);
        let ratio = paired(&fast_then_slow, &other);
        assert_eq!((ratio.median, ratio.low, ratio.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn the_interval_has_the_ends_that_the_sign_test_has() {
        let one = |count| Samples::of(vec![1.0; count]);
        let of = |count: usize| paired(&samples(count), &one(count));
        let ends = |ratio: PairedRatio| (ratio.low, ratio.high, (ratio.confidence * 1000.0).round());
        // Of the binomial distribution: 1 - 2/2^7, 1 - 2·(1 + 9)/2^9, 1 - 2·(1 + 15 + 105 + 455)/2^15.
        assert_eq!(ends(of(7)), (1.0, 7.0, 984.0));
        assert_eq!(ends(of(9)), (2.0, 8.0, 961.0));
        assert_eq!(ends(of(15)), (4.0, 12.0, 965.0));
    }
}
