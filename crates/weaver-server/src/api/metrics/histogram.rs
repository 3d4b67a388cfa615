//! A Prometheus histogram.

use std::fmt::Write as _;
use std::time::Duration;

/// Upper bounds in seconds: from half a millisecond, each about three times the last, to an hour.
const BOUNDS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];

#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    /// Observations per bucket, not cumulative.
    buckets: [u64; BOUNDS.len()],
    sum: f64,
    count: u64,
}

impl Histogram {
    pub(super) fn add(&mut self, span: Duration) {
        let seconds = span.as_secs_f64();
        if let Some(bucket) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.sum += seconds;
        self.count += 1;
    }

    /// `labels` is `name="value"` pairs without braces, or empty.
    pub(super) fn write(&self, out: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        // Writing to a String cannot fail.
        for (bound, count) in BOUNDS.iter().zip(self.buckets) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", self.sum);
        let _ = writeln!(out, "{name}_count{{{labels}}} {}", self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_inf_counts_what_exceeds_them_all() {
        let mut histogram = Histogram::default();
        for ms in [1, 3, 3, 100_000_000] {
            histogram.add(Duration::from_millis(ms));
        }
        let mut text = String::new();
        histogram.write(&mut text, "x", "a=\"b\"");
        for line in [
            "x_bucket{a=\"b\",le=\"0.001\"} 1\n",
            "x_bucket{a=\"b\",le=\"0.005\"} 3\n",
            "x_bucket{a=\"b\",le=\"3600\"} 3\n",
            "x_bucket{a=\"b\",le=\"+Inf\"} 4\n",
            "x_count{a=\"b\"} 4\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
