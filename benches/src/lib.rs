//! Common parts of the benchmarks: interleaved rounds, medians with their spread, resident memory.

pub mod scratch;
pub mod source;

use std::time::Duration;

/// Rounds per subject. An odd number, so that the median is a measurement.
pub const ROUNDS: usize = 7;

/// The measurements of one subject over all rounds.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Collects all measurements at once.
    pub fn of(mut measurements: Vec<f64>) -> Self {
        measurements.sort_by(f64::total_cmp);
        Self(measurements)
    }

    /// Adds the measurement of one round.
    pub fn push(&mut self, measurement: f64) {
        self.0.push(measurement);
        self.0.sort_by(f64::total_cmp);
    }

    /// Median of the measurements; panics if there are none.
    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// Quantile, with `part` from 0 to 1.
    pub fn quantile(&self, part: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * part) as usize]
    }

    /// Half the range, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        (self.0[self.0.len() - 1] - self.0[0]) / 2.0 / self.median()
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

/// Prints a ratio with its limit; true if it is within the limit.
pub fn verdict(what: &str, ratio: f64, limit: f64, at_least: bool) -> bool {
    let holds = if at_least { ratio >= limit } else { ratio <= limit };
    let sign = if at_least { "≥" } else { "≤" };
    println!("  {} {what}: {ratio:.2} × (limit {sign} {limit})", if holds { "ok  " } else { "MISS" });
    holds
}
